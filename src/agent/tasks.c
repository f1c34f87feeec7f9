/*
 * Programs that count their threads: by the links of /proc/self/task, which a stat() tells.  Chromium's zygote goes on
 * only where it is alone, and counts before it shuts itself in.  The agent stands in front of stat() and its kin, and
 * leaves its own thread out of what is told.
 *
 * A program that lists the folder, or reads another file of /proc, sees the thread.  Context: control, on the program's
 * thread, also in signal handlers.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/thread.h>

#define OF_ONE_THREAD 3 /* links of the folder, where there is one thread */

/* Is the text's end, up to `end`, this one?  *end moves to where it begins. */
static bool ends_with(const char *text, const char **end, const char *with)
{
	size_t length = base_strlen(with);

	if ((size_t)(*end - text) < length || memcmp(*end - length, with, length) != 0)
		return false;
	*end -= length;
	return true;
}

/* Is it "self/task", or "NUMBER/task" of this process, with whatever is in front of it and slashes behind? */
static bool is_own_folder(const char *path)
{
	const char *end = path + base_strlen(path);
	uint32_t pid = probe_context.wiped->pid;

	while (end > path && end[-1] == '/')
		end--;
	if (!ends_with(path, &end, "/task"))
		return false;
	if (ends_with(path, &end, "self"))
		return end == path || end[-1] == '/';
	for (; end > path && pid && end[-1] == (char)('0' + pid % 10); pid /= 10)
		end--;
	return !pid && (end == path || end[-1] == '/');
}

/* A call has told this of the file at the path: returns what it has returned. */
static int leave_out(const char *path, struct stat *file, int ret)
{
	if (!ret && S_ISDIR(file->st_mode) && file->st_nlink > OF_ONE_THREAD && probe_context.wiped &&
	    probe_context.wiped->alive && agent.control_tid && is_own_folder(path))
		file->st_nlink--;
	return ret;
}

/* The names are libc's, of which the headers make others. */
#define FRONT(name) AGENT_EXPORT int front_##name
FRONT(stat)(const char *path, struct stat *file) __asm__("stat");
FRONT(stat64)(const char *path, struct stat *file) __asm__("stat64");
FRONT(fstatat)(int folder, const char *path, struct stat *file, int flags) __asm__("fstatat");
FRONT(fstatat64)(int folder, const char *path, struct stat *file, int flags) __asm__("fstatat64");
/* What programs call that were linked to glibc before 2.33; it is the same structure. */
FRONT(xstat64)(int version, const char *path, struct stat *file) __asm__("__xstat64");
FRONT(fxstatat64)(int version, int folder, const char *path, struct stat *file, int flags) __asm__("__fxstatat64");

typedef int stat_fn(const char *path, struct stat *file);
typedef int fstatat_fn(int folder, const char *path, struct stat *file, int flags);
typedef int xstat_fn(int version, const char *path, struct stat *file);
typedef int fxstatat_fn(int version, int folder, const char *path, struct stat *file, int flags);

/* Each has its own: a library behind the agent may stand in front of some of them. */
static stat_fn *next_stat, *next_stat64;
static fstatat_fn *next_fstatat, *next_fstatat64;
static xstat_fn *next_xstat64;
static fxstatat_fn *next_fxstatat64;

/* Where libc's function is not known: another library's constructor came before the agent's, or libc is an old one. */
static int call_kernel(int folder, const char *path, struct stat *file, int flags)
{
	long ret = SYS(newfstatat, folder, path, file, flags, 0, 0);

	if (!sys_failed(ret))
		return 0;
	if (__errno_location)
		*__errno_location() = (int)-ret;
	return -1;
}

static int do_fstatat(fstatat_fn *next, int folder, const char *path, struct stat *file, int flags)
{
	return leave_out(path, file, next ? next(folder, path, file, flags) : call_kernel(folder, path, file, flags));
}

static int do_stat(stat_fn *next, const char *path, struct stat *file)
{
	return leave_out(path, file, next ? next(path, file) : call_kernel(AT_FDCWD, path, file, 0));
}

int front_stat(const char *path, struct stat *file)
{
	return do_stat(next_stat, path, file);
}

int front_stat64(const char *path, struct stat *file)
{
	return do_stat(next_stat64, path, file);
}

int front_fstatat(int folder, const char *path, struct stat *file, int flags)
{
	return do_fstatat(next_fstatat, folder, path, file, flags);
}

int front_fstatat64(int folder, const char *path, struct stat *file, int flags)
{
	return do_fstatat(next_fstatat64, folder, path, file, flags);
}

int front_xstat64(int version, const char *path, struct stat *file)
{
	return next_xstat64 ? leave_out(path, file, next_xstat64(version, path, file))
			    : do_stat(next_stat64, path, file);
}

int front_fxstatat64(int version, int folder, const char *path, struct stat *file, int flags)
{
	return next_fxstatat64 ? leave_out(path, file, next_fxstatat64(version, folder, path, file, flags))
			       : do_fstatat(next_fstatat64, folder, path, file, flags);
}

void agent_tasks_init(void)
{
	next_stat = (stat_fn *)agent_next("stat");
	next_stat64 = (stat_fn *)agent_next("stat64");
	next_fstatat = (fstatat_fn *)agent_next("fstatat");
	next_fstatat64 = (fstatat_fn *)agent_next("fstatat64");
	next_xstat64 = (xstat_fn *)agent_next("__xstat64");
	next_fxstatat64 = (fxstatat_fn *)agent_next("__fxstatat64");
}
