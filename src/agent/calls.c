/*
 * Calls by which a program changes what its threads may do: the agent stands in front of them, prepares for what
 * follows, and lets libc do the work.
 *
 * prctl() is for seccomp (sandbox.c).  The kernel refuses unshare() and setns() to a process of more than one thread:
 * so the control thread ends before and comes back after.  syscall() comes here from syscall.S, with the calls that
 * matter.  Context: control, on the program's thread; no call of the agent's may change errno.
 */
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <agent/sandbox.h>
#include <base/sys.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
/* Flags for which unshare() and setns() want a process of one thread. */
#define OF_ONE_THREAD (CLONE_NEWUSER | CLONE_NEWTIME | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)
#define ALONE_TRIES   5u
#define ALONE_STEP_NS 1000000u

static int set_seccomp(unsigned long mode, unsigned long program, unsigned long c, unsigned long d)
{
	struct agent_shut shut;
	int ret;

	if (mode == SECCOMP_MODE_STRICT)
		agent_clock_lost();
	if (mode != SECCOMP_MODE_FILTER || !program) /* some programs only ask whether there is such a thing */
		return agent.next_prctl(PR_SET_SECCOMP, mode, program, c, d);
	agent.filtered = 1;
	agent_shut_begin(&shut, (const void *)program, false);
	ret = agent.next_prctl(PR_SET_SECCOMP, mode, program, c, d);
	agent_shut_end(&shut, ret == 0);
	return ret;
}

/*
 * Syscall user dispatch: while a byte of the thread's says so, each of its system calls is a signal to the program, the
 * agent's too.  Threads that begin later, and children, have none.
 */
static bool is_dispatch(int option, unsigned long mode)
{
	return option == PR_SET_SYSCALL_USER_DISPATCH && mode == PR_SYS_DISPATCH_ON;
}

static int set_dispatch(unsigned long mode, unsigned long offset, unsigned long size, unsigned long selector)
{
	struct agent_shut shut;
	int ret;

	agent_shut_begin(&shut, NULL, false);
	ret = agent.next_prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, offset, size, selector);
	agent_shut_end(&shut, ret == 0);
	return ret;
}

/* What a call of prctl() needs done before: it may be one that takes the clock from the thread. */
static void prepare_prctl(int option, unsigned long value)
{
	if (option == PR_SET_TSC && (unsigned)value == PR_TSC_SIGSEGV)
		agent_clock_lost();
}

int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int ret;

	if (!agent.next_prctl)
		return -1;
	if (option == PR_SET_SECCOMP)
		return set_seccomp(a, b, c, d);
	if (is_dispatch(option, a))
		return set_dispatch(a, b, c, d);
	prepare_prctl(option, a);
	ret = agent.next_prctl(option, a, b, c, d);
	if (option == PR_SET_NAME)
		agent_name_refresh();
	return ret;
}

static long prctl_by_number(long option, long a, long b, long c, long d)
{
	long ret;

	if ((int)option == PR_SET_SECCOMP && agent.next_prctl)
		return set_seccomp((unsigned long)a, (unsigned long)b, (unsigned long)c, (unsigned long)d);
	if (is_dispatch((int)option, (unsigned long)a) && agent.next_prctl)
		return set_dispatch((unsigned long)a, (unsigned long)b, (unsigned long)c, (unsigned long)d);
	prepare_prctl((int)option, (unsigned long)a);
	ret = agent_next_syscall(SYS_prctl, option, a, b, c, d, 0);
	if ((int)option == PR_SET_NAME)
		agent_name_refresh();
	return ret;
}

/*
 * seccomp(2), for which libc has no function.  Libraries ask by calls that must fail which operations and flags there
 * are.
 */
static long seccomp(long operation, long flags, long program)
{
	bool all_threads = flags & SECCOMP_FILTER_FLAG_TSYNC, done;
	struct agent_shut shut;
	long ret;

	if ((unsigned)operation == SECCOMP_SET_MODE_STRICT && !(unsigned)flags && !program)
		agent_clock_lost();
	if ((unsigned)operation != SECCOMP_SET_MODE_FILTER || !program)
		return agent_next_syscall(SYS_seccomp, operation, flags, program, 0, 0, 0);
	agent.filtered = 1;
	agent_shut_begin(&shut, (const void *)program, all_threads);
	ret = agent_next_syscall(SYS_seccomp, operation, flags, program, 0, 0, 0);
	/* The result names a thread that could not follow, unless it is a descriptor. */
	done = ret == 0 || (ret > 0 && (!all_threads || flags & SECCOMP_FILTER_FLAG_NEW_LISTENER));
	agent_shut_end(&shut, done);
	return ret;
}

static long no_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	return -1;
}

long (*agent_next_syscall)(long number, long a, long b, long c, long d, long e, long f) = no_syscall;

/* End the control thread if it is in the way of the call; true if it has gone. */
static bool step_aside(int flags)
{
	return flags & OF_ONE_THREAD && probe_context.enabled && probe_context.wiped && probe_context.wiped->alive &&
	       !probe_context.shared.quiet && !agent.no_children &&
	       (uint32_t)sys_getpid() == probe_context.wiped->pid && agent_control_leave(AGENT_AWAY, true);
}

/* The kernel counts a thread out in steps, and the call may come between two of them: then it fails, and does nothing.
 */
static bool is_tried_again(bool aside, int ret, unsigned tries)
{
	uint32_t never = 0;

	if (!aside || !ret || tries == ALONE_TRIES)
		return false;
	sys_futex_wait(&never, never, ALONE_STEP_NS);
	return true;
}

int unshare(int flags)
{
	bool aside = step_aside(flags);
	unsigned tries = 0;
	int ret;

	do
		ret = agent.next_unshare ? agent.next_unshare(flags) : -1;
	while (is_tried_again(aside, ret, tries++));
	agent.other_net |= !ret && flags & CLONE_NEWNET;
	if (aside)
		agent_control_back();
	return ret;
}

int setns(int fd, int kind)
{
	bool aside = step_aside(kind ? kind : OF_ONE_THREAD);
	unsigned tries = 0;
	int ret;

	do
		ret = agent.next_setns ? agent.next_setns(fd, kind) : -1;
	while (is_tried_again(aside, ret, tries++));
	agent.other_net |= !ret && kind & CLONE_NEWNET;
	if (aside)
		agent_control_back();
	return ret;
}

/* The calls that syscall.S hands on.  Languages make them by number, where their libraries have no function. */
long agent_syscall(long number, long a, long b, long c, long d, long e)
{
	switch ((int)number) {
	case SYS_seccomp:
		return seccomp(a, b, c);
	case SYS_unshare:
		return unshare((int)a);
	case SYS_setns:
		return setns((int)a, (int)b);
	case SYS_mlockall:
		return mlockall((int)a);
	default:
		return prctl_by_number(a, b, c, d, e);
	}
}

#define THREAD_ALIGN 64 /* bytes, of libc's block, at the most */
#define RSEQ_CPU_ID  4	/* bytes, where struct rseq has the CPU */

/*
 * libc notes a thread's id where debuggers find it, and tells that word's size, count and offset under this name.  The
 * block with the word begins at the thread pointer, or ends there (psABI: thread-local storage, variants II and I).
 */
void agent_tid_find(void)
{
	const uint32_t *word = agent_next("_thread_db_pthread_tid"), *size = agent_next("_thread_db_sizeof_pthread");
	const char *pointer = __builtin_thread_pointer();
	int32_t begins[] = {0, 0, 0}, at;

	if (!word || word[0] != 32 || !size)
		return;
	begins[1] = -(int32_t)*size;
	begins[2] = -(int32_t)((*size + THREAD_ALIGN - 1) & ~(THREAD_ALIGN - 1u));
	for (unsigned i = 0; i < sizeof(begins) / sizeof(begins[0]) && !probe_context.tid_offset; i++) {
		at = begins[i] + (int32_t)word[2];
		if (*(const int32_t *)(pointer + at) == sys_gettid())
			probe_context.tid_offset = at;
	}
}

/*
 * glibc tells from version 2.35 on where in a thread's block the kernel's struct rseq lies, and its size: 0 where it
 * has registered none, for the kernel has no rseq, or the program wants to register its own (glibc.pthread.rseq).
 * Source: the glibc manual, "Restartable Sequences"; linux/rseq.h.
 */
void agent_cpu_find(void)
{
	const ptrdiff_t *offset = agent_next("__rseq_offset");
	const uint32_t *size = agent_next("__rseq_size");
	ptrdiff_t at = offset ? *offset + RSEQ_CPU_ID : 0;

	probe_context.shared.cpu_offset = 0;
	if (offset && size && *size >= RSEQ_CPU_ID + sizeof(uint32_t) && at == (int32_t)at)
		probe_context.shared.cpu_offset = (int32_t)at;
}

void agent_calls_init(void)
{
	long (*next_syscall)(long, long, long, long, long, long, long);

	agent.next_prctl =
		(int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long))agent_next("prctl");
	next_syscall = (long (*)(long, long, long, long, long, long, long))agent_next("syscall");
	agent_next_syscall = next_syscall ? next_syscall : no_syscall;
	agent.next_unshare = (int (*)(int))agent_next("unshare");
	agent.end_recording = agent_clock_lost; /* objects.c, which knows no sandbox, calls it, too */
	agent.next_setns = (int (*)(int, int))agent_next("setns");
	AGENT_FRONT(CALLTAP_POINTER_PRCTL, prctl, agent.next_prctl);
	AGENT_FRONT(CALLTAP_POINTER_SYSCALL, agent_front_syscall, agent_next_syscall);
	AGENT_FRONT(CALLTAP_POINTER_UNSHARE, unshare, agent.next_unshare);
	AGENT_FRONT(CALLTAP_POINTER_SETNS, setns, agent.next_setns);
}
