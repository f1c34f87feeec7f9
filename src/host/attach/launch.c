/*
 * A program held by ptrace at its start (launch.h).  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <host/now.h>

#include "launch.h"

#define CALLS_MAX   64u		/* stops at system calls up to the one by which libc tells of its first thread */
#define STEPS_MAX   64u		/* instructions from there until it has noted that thread's id */
#define BLOCK_WORDS 256u	/* of libc's block behind the thread pointer, where the note is looked for */
#define OLD_MUSL    0x100	/* musl before 1.1.22 passes the note's address, too, and has it before that place */
#define PATIENCE_NS 2000000000u /* for the next of all these stops: a program without a libc may make no call */
#define STEP_NS	    20000
#define AUXV_MAX    64u

#define GUEST_OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)

static int64_t get_regs(const struct attach_launch *launch, struct native_regs *regs)
{
	struct iovec part = {regs->set, sizeof(regs->set)};

	return ptrace(PTRACE_GETREGSET, launch->pid, NT_PRSTATUS, &part) ? -errno : 0;
}

static int64_t set_regs(const struct attach_launch *launch, struct native_regs *regs)
{
	struct iovec part = {regs->set, sizeof(regs->set)};

	return ptrace(PTRACE_SETREGSET, launch->pid, NT_PRSTATUS, &part) ? -errno : 0;
}

/* A signal that came meanwhile is given to the program when it is let go of. */
static void keep_signal(struct attach_launch *launch, int signal)
{
	for (unsigned i = 0; i < launch->signal_count; i++)
		if (launch->signals[i] == signal)
			return;
	if (launch->signal_count < LAUNCH_SIGNALS)
		launch->signals[launch->signal_count++] = signal;
}

/* Wait for the program's next stop. -ESRCH: it has ended, and is not reaped. -ETIMEDOUT: it was made to stop. */
static int await_stop(struct attach_launch *launch, int *status)
{
	const struct timespec step = {0, STEP_NS};
	uint64_t until = now_ns() + PATIENCE_NS;
	bool late = false;

	for (;;) {
		siginfo_t info = {0};

		if (waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL) &&
		    errno != EINTR)
			return -errno;
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
			return -ESRCH;
		if (info.si_pid)
			break;
		if (now_ns() > until && !late)
			late = !ptrace(PTRACE_INTERRUPT, launch->pid, 0, 0);
		nanosleep(&step, NULL);
	}
	if (waitpid(launch->pid, status, __WALL) != launch->pid)
		return -ESRCH;
	return late ? -ETIMEDOUT : 0;
}

/* The program's instruction has faulted: it would do so again and again without its handler. */
static bool has_faulted(const struct attach_launch *launch, int signal)
{
	siginfo_t info = {0};

	return (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL) &&
	       !ptrace(PTRACE_GETSIGINFO, launch->pid, 0, &info) && info.si_code > 0;
}

/*
 * Let the program run until it stops for the tool; *status as of waitpid(). -ESRCH: it has ended, and is not reaped.
 * -EFAULT: it has faulted, and does so once more, by itself, when it is let go of.
 */
static int run_on(struct attach_launch *launch, enum __ptrace_request how, int *status)
{
	enum __ptrace_request next = how;
	int signal = 0;

	*status = 0;
	for (;;) {
		int ret;

		if (ptrace(next, launch->pid, 0, (void *)(uintptr_t)signal) && errno != ESRCH)
			return -errno;
		ret = await_stop(launch, status);
		if (ret == -ETIMEDOUT && launch->guest && !(*status >> 16) && WSTOPSIG(*status) < SIGRTMAX + 1 &&
		    WSTOPSIG(*status) != SIGTRAP)
			launch->pending = WSTOPSIG(*status);
		if (ret)
			return ret;
		next = how;
		signal = 0;
		if (*status >> 16 == PTRACE_EVENT_STOP) {
			/* Stopped together with its group: it has nothing to show yet.  A guest stays stopped. */
			if (launch->guest && WSTOPSIG(*status) != SIGTRAP)
				next = PTRACE_LISTEN;
			continue;
		}
		if (*status >> 16 || WSTOPSIG(*status) == SIGTRAP || WSTOPSIG(*status) == (SIGTRAP | 0x80))
			return 0;
		if (launch->guest)
			signal = WSTOPSIG(*status); /* at once: nobody would send it again if the tool died */
		else if (has_faulted(launch, WSTOPSIG(*status)))
			return -EFAULT;
		else
			keep_signal(launch, WSTOPSIG(*status));
	}
}

int attach_launch_seize(struct attach_launch *launch, pid_t pid, struct calltap_diag *diag)
{
	const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

	*launch = (struct attach_launch){.pid = pid, .memory = -1};
	if (!ptrace(PTRACE_SEIZE, pid, 0, options))
		return 0;
	return calltap_diag_set(diag, -errno,
				"cannot hold a program at its start: %s; a sandbox, or "
				"/proc/sys/kernel/yama/ptrace_scope, forbids ptrace, which static programs take",
				strerror(errno));
}

/* What the kernel has told the program. */
static int read_facts(struct attach_launch *launch, struct calltap_diag *diag)
{
	uint64_t auxv[2 * AUXV_MAX], arguments = 0;
	char path[40];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)launch->pid);
	launch->memory = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)launch->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, auxv, sizeof(auxv));
	if (fd >= 0)
		close(fd);
	if (launch->memory < 0 || got < 0 || get_regs(launch, &launch->regs) ||
	    attach_launch_read(launch, native_sp(&launch->regs), &arguments, sizeof(arguments)))
		return calltap_diag_set(diag, -ENOTSUP, "its memory cannot be read");
	launch->environment = native_sp(&launch->regs) + (arguments + 2) * sizeof(uint64_t);
	for (size_t i = 0; i + 1 < (size_t)got / sizeof(auxv[0]); i += 2) {
		if (auxv[i] == AT_PHDR)
			launch->headers = auxv[i + 1];
		else if (auxv[i] == AT_ENTRY)
			launch->entry = auxv[i + 1];
		else if (auxv[i] == AT_BASE && auxv[i + 1])
			return calltap_diag_set(diag, -ENODATA, "it has a loader");
		else if (auxv[i] == AT_SECURE && auxv[i + 1])
			return calltap_diag_set(diag, -ENOTSUP, "it runs with other rights");
	}
	return 0;
}

/* Stop behind the system call by which libc tells the kernel of its first thread. */
static int reach_call(struct attach_launch *launch, struct calltap_diag *diag)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		int status, ret = run_on(launch, PTRACE_SYSCALL, &status);

		if (!ret)
			ret = (int)get_regs(launch, &launch->regs);
		if (ret == -ETIMEDOUT)
			break;
		if (ret)
			return ret;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) && native_call_number(&launch->regs) == SYS_set_tid_address &&
		    native_call_result(&launch->regs) > 0 && native_thread_pointer(&launch->regs))
			return 0;
	}
	return calltap_diag_set(diag, -ENOTSUP, "its C library is neither glibc nor musl, or it has none");
}

/* libc's block: what is there of it. */
static void read_block(const struct attach_launch *launch, uint64_t pointer, uint32_t words[BLOCK_WORDS])
{
	memset(words, 0, BLOCK_WORDS * sizeof(words[0]));
	if (pread(launch->memory, words, BLOCK_WORDS * sizeof(words[0]), (off_t)pointer) < 0)
		memset(words, 0, BLOCK_WORDS * sizeof(words[0]));
}

/* The word of libc's block that has become the thread's id; 0 = none has. */
static int64_t find_note(const uint32_t before[BLOCK_WORDS], const uint32_t now[BLOCK_WORDS], uint32_t id)
{
	for (unsigned i = 0; i < BLOCK_WORDS; i++)
		if (now[i] == id && before[i] != id)
			return (int64_t)(i * sizeof(now[0]));
	return 0;
}

/* Where libc will note the id, by its next instruction: a guest that is being stepped would be killed by its trap if
 * the tracer died.
 */
static int find_note_ahead(struct attach_launch *launch, struct calltap_diag *diag)
{
	uint64_t pointer = native_thread_pointer(&launch->regs), at;
	unsigned char next[NATIVE_STORE_MAX];

	if (attach_launch_read(launch, native_pc(&launch->regs), next, sizeof(next)))
		return -ESRCH;
	at = native_call_stores(&launch->regs, next);
	launch->musl = native_call_argument(&launch->regs) != at;
	if (at - pointer >= BLOCK_WORDS * sizeof(uint32_t) || at == pointer)
		return calltap_diag_set(diag, -ENOTSUP, "where its C library notes a thread's id is not known");
	launch->id_offset = (int64_t)(at - pointer);
	if (!launch->musl && launch->id_offset < OLD_MUSL)
		return calltap_diag_set(diag, -ENOTSUP, "it has a musl libc older than 1.1.22");
	return 0;
}

static int reach_note(struct attach_launch *launch, struct calltap_diag *diag)
{
	uint64_t pointer = native_thread_pointer(&launch->regs), told = native_call_argument(&launch->regs);
	uint32_t before[BLOCK_WORDS], now[BLOCK_WORDS], id = (uint32_t)native_call_result(&launch->regs);
	uint64_t call_at = native_pc(&launch->regs) - native_call_size();
	int status, ret = 0;

	read_block(launch, pointer, before);
	for (unsigned i = 0; i < STEPS_MAX && !ret && !launch->id_offset; i++) {
		ret = run_on(launch, PTRACE_SINGLESTEP, &status);
		read_block(launch, pointer, now);
		launch->id_offset = find_note(before, now, id);
	}
	if (!ret)
		ret = (int)get_regs(launch, &launch->regs);
	if (ret)
		return ret;
	launch->musl = told != pointer + (uint64_t)launch->id_offset;
	if (!launch->id_offset)
		return calltap_diag_set(diag, -ENOTSUP, "where its C library notes a thread's id is not known");
	if (!launch->musl && launch->id_offset < OLD_MUSL)
		return calltap_diag_set(diag, -ENOTSUP, "it has a musl libc older than 1.1.22");
	launch->call_at = call_at; /* from here on the tool changes registers */
	return 0;
}

int attach_launch_reach(struct attach_launch *launch, struct calltap_diag *diag)
{
	int status, ret;

	/* The child runs: it waits for a word of the tool's before it executes the program. */
	for (;;) {
		siginfo_t info = {0};

		while (waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL))
			if (errno != EINTR)
				return -errno;
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED ||
		    waitpid(launch->pid, &status, __WALL) != launch->pid)
			return -ESRCH;
		if (status >> 16 == PTRACE_EVENT_EXEC)
			break;
		if (!(status >> 16) && WSTOPSIG(status) != SIGTRAP)
			keep_signal(launch, WSTOPSIG(status));
		ptrace(PTRACE_CONT, launch->pid, 0, 0);
	}
	ret = read_facts(launch, diag);
	if (!ret)
		ret = reach_call(launch, diag);
	if (!ret)
		ret = reach_note(launch, diag);
	return ret == -EFAULT
		       ? calltap_diag_set(diag, -ENOTSUP, "it faults before its C library has begun, or has none")
		       : ret;
}

int64_t attach_launch_call(struct attach_launch *launch, long number, const uint64_t arguments[6])
{
	struct native_regs regs = launch->regs;
	int64_t ret;
	int status;

	native_call_make(&regs, launch->call_at, number, arguments);
	ret = set_regs(launch, &regs);
	if (!ret)
		ret = run_on(launch, PTRACE_SINGLESTEP, &status);
	if (!ret)
		ret = get_regs(launch, &regs);
	if (ret)
		return ret;
	return native_pc(&regs) == launch->call_at + native_call_size() ? native_call_result(&regs) : -EIO;
}

int attach_launch_read(const struct attach_launch *launch, uint64_t at, void *bytes, size_t size)
{
	ssize_t got = pread(launch->memory, bytes, size, (off_t)at);

	return got == (ssize_t)size ? 0 : got < 0 ? -errno : -EFAULT;
}

int attach_launch_write(const struct attach_launch *launch, uint64_t at, const void *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t put = pwrite(launch->memory, (const char *)bytes + done, size - done, (off_t)(at + done));

		if (put <= 0)
			return put < 0 ? -errno : -EFAULT;
		done += (size_t)put;
	}
	return 0;
}

/* Let go, and give the program the signals that have come. */
static int detach(struct attach_launch *launch)
{
	int ret = ptrace(PTRACE_DETACH, launch->pid, 0, (void *)(uintptr_t)launch->pending) ? -errno : 0;

	for (unsigned i = 0; i < launch->signal_count; i++)
		kill(launch->pid, launch->signals[i]);
	if (launch->memory >= 0)
		close(launch->memory);
	launch->memory = -1;
	return ret;
}

int attach_launch_go(struct attach_launch *launch, uint64_t pc)
{
	struct native_regs regs = launch->regs;
	int64_t ret;

	native_launch_go(&regs, pc);
	ret = set_regs(launch, &regs);
	return ret ? (int)ret : detach(launch);
}

void attach_launch_leave(struct attach_launch *launch)
{
	/* Until it has been reached, its registers are its own. */
	if (launch->call_at)
		(void)set_regs(launch, &launch->regs);
	(void)detach(launch);
}

int attach_launch_seize_guest(struct attach_launch *launch, pid_t tid, bool spawns)
{
	*launch = (struct attach_launch){.pid = tid, .memory = -1, .guest = true};
	return ptrace(PTRACE_SEIZE, tid, 0, GUEST_OPTIONS | (spawns ? PTRACE_O_TRACEVFORK : 0)) ? -errno : 0;
}

/* Wait for the event; errors as of attach_launch_await_exec(). */
static int await_event(struct attach_launch *launch, int event, bool (*goes_on)(void *context), void *context)
{
	const struct timespec step = {0, STEP_NS};

	for (;;) {
		int status = 0;
		pid_t got = waitpid(launch->pid, &status, __WALL | WNOHANG);
		bool stopped;

		if (got < 0 || (got && !WIFSTOPPED(status)))
			return -ESRCH;
		if (!got && !goes_on(context))
			return -EAGAIN;
		if (!got)
			nanosleep(&step, NULL);
		if (!got)
			continue;
		if (status >> 16 == event)
			return 0;
		/* The thread was to make a child, and executes itself: a signal's handler that came in between does so.
		 */
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return -ESRCH;
		/* A child has its parent's options at its first stop: what it makes is not followed. */
		if (event == PTRACE_EVENT_EXEC)
			ptrace(PTRACE_SETOPTIONS, launch->pid, 0, GUEST_OPTIONS);
		stopped = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
		ptrace(stopped ? PTRACE_LISTEN : PTRACE_CONT, launch->pid, 0,
		       (void *)(uintptr_t)(status >> 16 ? 0 : WSTOPSIG(status)));
	}
}

int attach_launch_await_exec(struct attach_launch *launch, bool (*goes_on)(void *context), void *context)
{
	return await_event(launch, PTRACE_EVENT_EXEC, goes_on, context);
}

int attach_launch_await_child(struct attach_launch *launch, pid_t *child, bool (*goes_on)(void *context), void *context)
{
	int ret = await_event(launch, PTRACE_EVENT_VFORK, goes_on, context);
	unsigned long pid = 0;

	if (!ret && (ptrace(PTRACE_GETEVENTMSG, launch->pid, 0, &pid) || !pid))
		ret = -ESRCH;
	*child = (pid_t)pid;
	return ret;
}

void attach_launch_follow(struct attach_launch *launch, pid_t child)
{
	ptrace(PTRACE_DETACH, launch->pid, 0, 0);
	launch->pid = child;
}

int attach_launch_reach_guest(struct attach_launch *launch, struct calltap_diag *diag)
{
	int ret = read_facts(launch, diag);

	if (!ret)
		ret = reach_call(launch, diag);
	return ret ? ret : find_note_ahead(launch, diag);
}
