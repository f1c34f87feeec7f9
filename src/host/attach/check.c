/*
 * Can a process be attached to, and if not, why, and what helps (attach.h);
 * and sockets in its network namespace.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/start.h>
#include <host/cgroup.h>
#include <host/yama.h>
#include <native.h>

#include "impl.h"

#define KERNEL_THREAD 0x200000ul /* PF_KTHREAD of /proc/PID/stat's flags */
#define STEP_NS	      5000000	 /* between two looks at what may pass */
#define TRACER_MS     500u	 /* for a debugger to end */
#define TRACED_TRIES  10u
#define BEGIN_MS      500u  /* for a process that has just begun to map its libraries */
#define AGENT_MS      6000u /* for the agent of a killed calltap to let go */
#define ENDING_MS     100u  /* for a process that is told to end to do so */
#define LAST_MS	      2000u /* for its last thread, when the initial one has ended */

/* True if look() returns true for the whole time: it is called again and again. */
static bool holds_for(bool (*look)(void *context), void *context, uint32_t milliseconds)
{
	const struct timespec pause = {0, STEP_NS};
	uint64_t until = now_ns() + milliseconds * 1000000ull;

	while (look(context)) {
		if (now_ns() > until)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

void process_name(pid_t pid, char *name, size_t size)
{
	if (proc_status(pid, "Name", name, size))
		snprintf(name, size, "?");
}

static int refuse_without_initial(pid_t pid, struct calltap_diag *diag)
{
	char name[32];

	process_name(pid, name, sizeof(name));
	return calltap_diag_set(diag, -ENOTSUP,
				"the initial thread of process %d (%s) has ended, which attaching needs; start the "
				"program under 'calltap record'",
				(int)pid, name);
}

static bool is_alive(void *context)
{
	return proc_alive(*(const pid_t *)context) != 0;
}

/* The initial thread has ended.  On a busy machine a process that ends does that long before its last thread. */
static int explain_without_initial(pid_t pid, struct calltap_diag *diag)
{
	return holds_for(is_alive, &pid, LAST_MS) ? refuse_without_initial(pid, diag)
						  : calltap_diag_set(diag, -ESRCH, "process %d has ended", (int)pid);
}

static int check_state(pid_t pid, struct calltap_diag *diag)
{
	unsigned long flags = 0;
	char state = proc_state(pid, &flags), name[32];
	long group = proc_number(pid, "Tgid");

	if (!state)
		return calltap_diag_set(diag, -ESRCH, "there is no process %d; 'pgrep -a NAME' finds a program's",
					(int)pid);
	process_name(pid, name, sizeof(name));
	if (group && group != pid)
		return calltap_diag_set(diag, -EINVAL, "%d is a thread of process %ld (%s); attach to %ld", (int)pid,
					group, name, group);
	if (pid == getpid())
		return calltap_diag_set(diag, -EINVAL, "process %d is this calltap itself; name another", (int)pid);
	if (flags & KERNEL_THREAD)
		return calltap_diag_set(
			diag, -EINVAL,
			"process %d (%s) is a thread of the kernel, which calltap cannot trace; the kernel's "
			"own ftrace can",
			(int)pid, name);
	if (!proc_alive(pid))
		return calltap_diag_set(diag, -ESRCH, "process %d (%s) has ended and only waits for its parent",
					(int)pid, name);
	return proc_alive(pid) != pid ? explain_without_initial(pid, diag) : 0;
}

bool agent_serves(pid_t pid)
{
	bool mapped = false, named = false;
	struct space space;
	size_t count;
	pid_t *tids;

	if (space_read(&space, pid))
		return false;
	for (size_t i = 0; !mapped && i < space.count; i++)
		mapped = strstr(space.maps[i].path, "libcalltap-agent") != NULL;
	space_free(&space);
	if (!mapped || proc_threads(pid, &tids, &count))
		return false;
	for (size_t i = 0; !named && i < count; i++) {
		char name[32];

		named = !proc_status(tids[i], "Name", name, sizeof(name)) && !strcmp(name, "calltap");
	}
	free(tids);
	return named;
}

bool attach_has_agent(pid_t pid)
{
	const pid_t alive = proc_alive(pid);
	struct calltap_start start;
	struct space space;
	bool has = false;
	uint64_t at;

	if (!alive || space_read(&space, alive))
		return false;
	for (size_t i = 0; !has && i < space.count; i++)
		has = strstr(space.maps[i].path, "libcalltap-agent") != NULL;
	has = has || attach_find_placed(alive, &space, &at, &start) != -ENOENT;
	space_free(&space);
	return has;
}

static bool has_tracer(void *context)
{
	return proc_number(*(const pid_t *)context, "TracerPid") != 0;
}

bool tracer_is_calltap(pid_t tracer)
{
	char name[32];

	process_name(tracer, name, sizeof(name));
	return !strcmp(name, "calltap");
}

static long await_no_tracer(pid_t alive)
{
	long tracer = proc_number(alive, "TracerPid");

	if (!tracer)
		return 0;
	if (!holds_for(has_tracer, &alive, tracer_is_calltap((pid_t)tracer) ? OWN_TRACER_MS : TRACER_MS))
		return 0;
	return proc_number(alive, "TracerPid");
}

/* Check the process' own state: whether anything in it is against an attach. */
static int check_condition(pid_t pid, pid_t alive, struct calltap_diag *diag)
{
	bool sandboxed = sandbox_has_any(pid);
	char tracer_name[32], name[32];
	long tracer;
	char state; /* a tracer may have stopped it, and gone */

	for (unsigned i = 0;; i++) {
		tracer = await_no_tracer(alive);
		state = proc_state(alive, NULL);
		if (tracer || state != 't' || i == TRACED_TRIES) /* or another tracer has come meanwhile */
			break;
	}
	process_name(pid, name, sizeof(name));
	if (tracer) {
		process_name((pid_t)tracer, tracer_name, sizeof(tracer_name));
		return calltap_diag_set(
			diag, -EBUSY,
			"process %d (%s) is being traced by process %ld (%s), and the kernel allows one "
			"tracer; end that one",
			(int)pid, name, tracer, tracer_name);
	}
	if (state == 'T' || state == 't')
		return calltap_diag_set(diag, -EAGAIN, "process %d (%s) is stopped; 'kill -CONT %d' lets it run",
					(int)pid, name, (int)pid);
	if (cgroup_is_frozen(pid))
		return calltap_diag_set(diag, -EAGAIN,
					"process %d (%s) is frozen by its cgroup ('docker pause' does that); thaw it",
					(int)pid, name);
	if (sandboxed)
		return calltap_diag_set(
			diag, -EPERM,
			"process %d (%s) runs in a seccomp sandbox, which may end it for what the agent does; "
			"start it under 'calltap record', which comes before the sandbox",
			(int)pid, name);
	return 0;
}

/* The first id (the real one) of a process' user; -1 = not known. */
static long owner_of(pid_t pid)
{
	return proc_number(pid, "Uid");
}

static int not_permitted(pid_t pid, struct calltap_diag *diag)
{
	long scope = yama_scope(0);
	char name[32];

	process_name(pid, name, sizeof(name));
	if (owner_of(pid) != (long)geteuid() && geteuid())
		return calltap_diag_set(diag, -EPERM,
					"process %d (%s) is user %ld's; attach to it as that user or as root", (int)pid,
					name, owner_of(pid));
	if (scope == 3)
		return calltap_diag_set(
			diag, -EPERM,
			"this system lets nobody attach to a process (kernel.yama.ptrace_scope is 3, until it "
			"is booted anew); start the program under 'calltap record'");
	if (scope && geteuid())
		return calltap_diag_set(
			diag, -EPERM,
			"this system lets only root attach to process %d (%s) (kernel.yama.ptrace_scope is "
			"%ld); use sudo, or 'sysctl kernel.yama.ptrace_scope=0'",
			(int)pid, name, scope);
	if (!geteuid())
		return calltap_diag_set(
			diag, -EPERM,
			"process %d (%s) cannot be attached to from here, though by root; give calltap the "
			"capability CAP_SYS_PTRACE in the process' user namespace",
			(int)pid, name);
	return calltap_diag_set(
		diag, -EPERM,
		"process %d (%s) has more rights than its user (set-uid, capabilities) or is protected; "
		"attach to it as root",
		(int)pid, name);
}

/*
 * Reading the process' memory takes the right that tracing takes, and does nothing to the process: a thread that is
 * traced may be woken by a signal that is ignored.
 */
static int check_permission(pid_t pid, pid_t alive, struct calltap_diag *diag)
{
	char byte;
	int ret = memory_read(alive, 0, &byte, sizeof(byte));

	if (!ret || ret == -EFAULT)
		return 0;
	if (ret == -EPERM || ret == -EACCES)
		return not_permitted(pid, diag);
	if (ret == -ESRCH)
		return calltap_diag_set(diag, ret, "process %d has ended", (int)pid);
	return calltap_diag_set(diag, ret, "process %d cannot be attached to: %s", (int)pid, strerror(-ret));
}

static int check_program(pid_t pid, pid_t alive, struct calltap_diag *diag)
{
	Elf64_Ehdr header = {0};
	char path[64], name[32];
	ssize_t got = 0;
	int fd;

	process_name(pid, name, sizeof(name));
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)alive);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = pread(fd, &header, sizeof(header), 0);
		close(fd);
	}
	if (got != (ssize_t)sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return calltap_diag_set(diag, -ENOEXEC, "the program of process %d (%s) cannot be read; attach as root",
					(int)pid, name);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != NATIVE_MACHINE)
		return calltap_diag_set(diag, -ENOEXEC,
					"process %d (%s) is a 32-bit program, or one for another CPU; attach to 64-bit "
					"programs of this one",
					(int)pid, name);
	return 0;
}

static bool is_lodger(void *context)
{
	const pid_t pid = *(const pid_t *)context;
	const long parent = proc_number(pid, "PPid");

	return parent > 0 && proc_share_memory(pid, (pid_t)parent);
}

/* What is loaded into a child of vfork() is loaded into its parent, which sleeps.  Most such children execute soon. */
static int check_memory(pid_t pid, struct calltap_diag *diag)
{
	if (!holds_for(is_lodger, &pid, BEGIN_MS))
		return 0;
	return calltap_diag_set(diag, -EBUSY,
				"process %d runs in the memory of its parent (vfork); attach to that, process %ld, or "
				"when it has executed a program",
				(int)pid, proc_number(pid, "PPid"));
}

struct objects {
	pid_t pid, alive;
	bool library;
	struct calltap_diag *diag;
	int ret;
};

/* True if the process has no libc yet, which may come; else `ret` says what is the matter. */
static bool awaits_libc(void *context)
{
	struct objects *it = context;
	struct space space;
	struct libs libs;
	bool all;

	if (it->diag)
		it->diag->code = 0;
	it->ret = space_read(&space, it->alive);
	if (it->ret) {
		it->ret = calltap_diag_set(it->diag, it->ret, "the memory of process %d cannot be looked at: %s",
					   (int)it->pid, strerror(-it->ret));
		return false;
	}
	it->ret = libs_read(&libs, it->alive, &space, it->diag);
	if (!it->ret)
		it->ret = libs_refuse(&libs, it->pid, it->library, it->diag);
	all = libs_are_all(&libs);
	libs_free(&libs);
	space_free(&space);
	return it->ret == -ENOTSUP && !all;
}

/* Wait for libc: the process may have executed its program just now. */
static int check_objects(pid_t pid, pid_t alive, bool library, struct calltap_diag *diag)
{
	struct objects objects = {.pid = pid, .alive = alive, .library = library, .diag = diag};

	holds_for(awaits_libc, &objects, BEGIN_MS);
	return objects.ret;
}

static int check(pid_t pid, bool library, struct calltap_diag *diag)
{
	pid_t alive;
	const char *refusal = native_attach_refusal();
	int ret;

	if (refusal)
		return calltap_diag_set(diag, -ENOTSUP, "%s", refusal);
	ret = check_state(pid, diag);
	if (ret)
		return ret;
	alive = proc_alive(pid);
	ret = check_condition(pid, alive, diag);
	if (!ret)
		ret = check_permission(pid, alive, diag);
	if (!ret)
		ret = check_memory(pid, diag);
	if (!ret)
		ret = check_program(pid, alive, diag);
	if (!ret)
		ret = check_objects(pid, alive, library, diag);
	return ret;
}

bool attach_is_shut_in(pid_t pid)
{
	return sandbox_has_any(pid);
}

int attach_check_load(pid_t pid, struct calltap_diag *diag)
{
	return check(pid, true, diag);
}

static bool is_served(void *context)
{
	pid_t alive = proc_alive(*(const pid_t *)context);

	return alive && agent_serves(alive);
}

int attach_check(pid_t pid, struct calltap_diag *diag)
{
	int ret = check(pid, false, diag);
	char name[32];

	/* A calltap that was killed leaves an agent that lets go by itself. */
	if (ret || !holds_for(is_served, &pid, AGENT_MS))
		return ret;
	process_name(pid, name, sizeof(name));
	return calltap_diag_set(diag, -EBUSY,
				"process %d (%s) is being traced by a calltap whose session is not found here (another "
				"user's, with another XDG_RUNTIME_DIR, or that of a process that it comes from); there "
				"'calltap attach %d' records beside it, "
				"and 'calltap detach %d' ends it",
				(int)pid, name, (int)pid, (int)pid);
}

void attach_program_of(struct attach_program *program, pid_t pid)
{
	char path[64], text[1024] = "", *end;
	struct stat st;

	*program = (struct attach_program){0};
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &st) || proc_text(pid, "stat", text, sizeof(text)))
		return;
	end = strrchr(text, ')'); /* the process's name may hold anything; field 28 is the end of its stack */
	for (int i = 2; end && i < 28; i++)
		end = strchr(end + 1, ' ');
	*program = (struct attach_program){st.st_dev, st.st_ino, end ? strtoull(end, NULL, 10) : 0, true};
}

/* A stack of 0: the kernel does not show it to the tool, or it is gone. */
static bool is_another(const struct attach_program *now, const struct attach_program *before)
{
	return now->known && (now->device != before->device || now->inode != before->inode ||
			      (now->stack && before->stack && now->stack != before->stack));
}

static bool initial_is_alive(void *context)
{
	return proc_alive(*(const pid_t *)context) == *(const pid_t *)context;
}

bool attach_has_executed(const struct attach_program *program, pid_t pid)
{
	struct attach_program now;

	attach_program_of(&now, pid);
	return program->known && is_another(&now, program);
}

int attach_explain(const struct attach_program *program, pid_t pid, int error, struct calltap_diag *diag)
{
	if (!error || !program->known)
		return error;
	if (!holds_for(initial_is_alive, &pid, ENDING_MS))
		return explain_without_initial(pid, diag);
	if (attach_has_executed(program, pid))
		return calltap_diag_set(diag, -EAGAIN,
					"process %d has executed another program meanwhile; attach to it again",
					(int)pid);
	return error;
}

struct socket_wish {
	pid_t pid;
	int type;
};

/* Do two processes share the namespace?  other: 0 = the tool itself.  -errno: a process cannot be asked. */
static int same_namespace(pid_t pid, pid_t other, const char *kind)
{
	struct stat its, others;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &others))
		return 1; /* a kernel without them */
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	if (stat(path, &its))
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)other, kind);
	if (other && stat(path, &others))
		return -errno;
	return its.st_ino == others.st_ino && its.st_dev == others.st_dev;
}

bool attach_has_own_mounts(pid_t pid)
{
	return same_namespace(pid, 0, "mnt") == 0;
}

bool attach_reaches(pid_t pid, pid_t other)
{
	pid_t alive = proc_alive(pid), other_alive = proc_alive(other);

	/* A process that has ended is noticed when the agent is put in. */
	return !alive || !other_alive || same_namespace(alive, other_alive, "net") != 0;
}

/* Runs in a thread that ends afterwards, so that only that thread changes its namespace. */
static int make_socket_inside(void *context)
{
	const struct socket_wish *wish = context;
	char path[64];
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)wish->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = setns(fd, CLONE_NEWNET) ? -errno : 0;
	close(fd);
	if (ret)
		return ret;
	ret = socket(AF_UNIX, wish->type | SOCK_CLOEXEC, 0);
	return ret < 0 ? -errno : ret;
}

int attach_socket(pid_t pid, int type, struct calltap_diag *diag)
{
	struct socket_wish wish = {proc_alive(pid), type};
	int same = wish.pid ? same_namespace(wish.pid, 0, "net") : -ESRCH, ret = same;

	if (same > 0) {
		ret = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
		if (ret < 0)
			ret = -errno;
	} else if (!same) {
		ret = tracer_run(make_socket_inside, &wish);
	}
	if (ret == -EPERM)
		return calltap_diag_set(diag, ret,
					"process %d is in a network namespace that only root may enter; attach as root",
					(int)pid);
	return ret < 0 ? calltap_diag_set(diag, ret, "there is no socket to be had for process %d: %s", (int)pid,
					  strerror(-ret))
		       : ret;
}
