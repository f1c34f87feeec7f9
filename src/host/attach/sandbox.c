/*
 * Seccomp filters of a target's threads, against the tool's own (impl.h).
 *
 * /proc tells them in a thread's status only, which takes the kernel longer than all else that is asked of a stopped
 * thread: a file that is open already saves half of that.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "impl.h"

#define STATUS_MAX 8192 /* bytes; more is read where a thread's groups are a long list */

static bool number_of(const char *text, const char *name, long *value)
{
	const char *line = strstr(text, name);

	if (line)
		*value = strtol(line + strlen(name), NULL, 10);
	return line;
}

/* A name in the text cannot be mistaken for a line: the kernel writes its line ends as "\n". */
int sandbox_read(int status, struct sandbox *sandbox)
{
	char text[STATUS_MAX], *more = text;
	size_t size = sizeof(text);
	ssize_t got = pread(status, text, size - 1, 0);
	int ret = 0;

	while (got == (ssize_t)size - 1) {
		char *larger = realloc(more == text ? NULL : more, size *= 4);

		if (!larger)
			break;
		more = larger;
		got = pread(status, more, size - 1, 0);
	}
	*sandbox = (struct sandbox){0, 0};
	if (got < 0)
		ret = -errno;
	more[got > 0 ? got : 0] = 0;
	if (!number_of(more, "\nSeccomp:", &sandbox->mode) && !ret)
		ret = -ENOENT;					  /* the kernel knows no filters */
	number_of(more, "\nSeccomp_filters:", &sandbox->filters); /* told since Linux 5.9 */
	if (more != text)
		free(more);
	return ret;
}

int sandbox_open(pid_t tid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int sandbox_of(pid_t tid, struct sandbox *sandbox)
{
	int fd = sandbox_open(tid), ret;

	*sandbox = (struct sandbox){0, 0};
	if (fd < 0)
		return fd;
	ret = sandbox_read(fd, sandbox);
	close(fd);
	return ret;
}

bool sandbox_is_tighter(const struct sandbox *theirs, const struct sandbox *ours)
{
	return theirs->mode == 1 || (theirs->mode && !ours->mode) || theirs->filters > ours->filters;
}

bool sandbox_has(pid_t tid)
{
	struct sandbox theirs, ours;

	return !sandbox_of(tid, &theirs) && !sandbox_of(getpid(), &ours) && sandbox_is_tighter(&theirs, &ours);
}

/*
 * Can the kernel be asked for filters?  It tells "not built in" and "no filter" by the same error.  Another call is
 * built in by the same option, and is everybody's.
 */
static bool tells_filters(void)
{
	unsigned size = 0;

	return !prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0);
}

bool sandbox_holds(pid_t tid)
{
	if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, NULL, NULL) < 0 && errno == EINVAL && tells_filters())
		return false;
	return sandbox_has(tid);
}

bool sandbox_has_any(pid_t pid)
{
	bool found = false;
	size_t count;
	pid_t *tids;

	if (proc_threads(pid, &tids, &count))
		return false;
	for (size_t i = 0; !found && i < count; i++)
		found = sandbox_has(tids[i]);
	free(tids);
	return found;
}
