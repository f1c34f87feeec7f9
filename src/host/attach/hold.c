/*
 * A thread of a target under ptrace (impl.h): seize, interrupt, let go.
 *
 * The functions here leave no trace in a thread when the tool dies: the kernel lets a seized thread without
 * PTRACE_O_EXITKILL go.  A signal that is about to be delivered is passed on at once, and the thread stops behind it.
 * Context: host, the tracer.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "impl.h"

#define RELEASE_NS 10000000000u
#define PATIENT_NS                                                                                                     \
	3000000u /* a thread is looked at more closely after this, and each further time after twice as long */
#define REST_NS	    50000u
#define REST_MAX_NS 2000000u

/* ptrace()'s PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, since Linux 6.4, and what it answers. */
#define GET_DISPATCH_CONFIG 0x4211
struct dispatch_config {
	uint64_t mode, selector, offset, size;
};

int hold_seize(struct held *held, pid_t tid)
{
	memset(held, 0, sizeof(*held));
	held->tid = tid;
	return ptrace(PTRACE_SEIZE, tid, NULL, NULL) ? -errno : 0;
}

void hold_interrupt(struct held *held)
{
	held->since_ns = now_ns();
	held->patient_ns = PATIENT_NS;
	if (ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL))
		held->state = HELD_GONE;
}

int hold_begin(struct held *held, pid_t tid)
{
	int ret = hold_seize(held, tid);

	if (!ret)
		hold_interrupt(held);
	return ret;
}

static bool dispatches(pid_t tid)
{
	struct dispatch_config config = {0, 0, 0, 0};

	return !ptrace((enum __ptrace_request)GET_DISPATCH_CONFIG, tid, (void *)sizeof(config), &config) && config.mode;
}

/* A sandbox that lets the program sleep need not let it make restart_syscall(), and may end it for that. */
static bool mend(const struct held *held, struct native_regs *regs)
{
	struct native_regs anew = *regs;

	if (held->is_caught ? native_call_reopen(regs) : native_call_mend(regs))
		return true;
	if (!native_call_anew(&anew) || !sandbox_holds(held->tid))
		return false;
	*regs = anew;
	return true;
}

static void read_registers(struct held *held)
{
	struct iovec registers = {&held->regs, sizeof(held->regs)};
	struct native_regs mended;

	if (ptrace(PTRACE_GETREGSET, held->tid, NT_PRSTATUS, &registers)) {
		held->state = HELD_GONE; /* killed meanwhile */
		return;
	}
	held->state = HELD_STOPPED;
	held->cut_short = native_call_cut_short(&held->regs);
	held->dispatches = dispatches(held->tid);
	mended = held->regs;
	registers.iov_base = &mended;
	if (!mend(held, &mended) || ptrace(PTRACE_SETREGSET, held->tid, NT_PRSTATUS, &registers))
		return;
	held->regs = mended;
	held->reopens = held->is_caught;
}

/* A signal is about to be delivered, which ate the interrupt: interrupt anew, then let the thread have the signal. */
static void pass_on(const struct held *held, int signal)
{
	ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL);
	ptrace(PTRACE_CONT, held->tid, NULL, (void *)(uintptr_t)signal);
}

/*
 * A thread takes long to stop.  Another thread of the tool that waits for its child may have been told of the stop
 * instead; or the thread sleeps in the kernel.
 */
static void look_closer(struct held *held)
{
	struct proc_sleep sleep;
	siginfo_t info;

	if (now_ns() - held->since_ns < held->patient_ns)
		return;
	held->patient_ns *= 2; /* a closer look costs much more than waitpid(), and may be at thousands of threads */
	if (!ptrace(PTRACE_GETSIGINFO, held->tid, NULL, &info)) {
		if (info.si_code >> 8 == PTRACE_EVENT_STOP)
			read_registers(held);
		else
			pass_on(held, info.si_signo);
	} else if (errno == EINVAL) {
		read_registers(held); /* stopped with its process */
	} else if (proc_state(held->tid, NULL) == 'Z') {
		held->state = HELD_GONE; /* an initial thread that has ended before others */
	} else if (proc_state(held->tid, NULL) == 'D' && !proc_asleep(held->tid, &sleep)) {
		held->asleep_pc = sleep.pc;
		held->asleep_sp = sleep.sp;
		held->state = HELD_ASLEEP;
	}
}

bool hold_look(struct held *held)
{
	int status;
	pid_t got;

	if (held->state == HELD_STOPPED || held->state == HELD_GONE)
		return true;
	got = waitpid(held->tid, &status, __WALL | WNOHANG);
	if (got < 0 || (got && !WIFSTOPPED(status))) {
		held->state = HELD_GONE;
	} else if (!got) {
		if (held->state == HELD_NOT)
			look_closer(held);
	} else if (status >> 16 == PTRACE_EVENT_STOP) {
		read_registers(held);
	} else {
		pass_on(held, status >> 16 ? 0 : WSTOPSIG(status));
	}
	return held->state != HELD_NOT;
}

bool hold_sleeps(struct held *held)
{
	if (proc_state(held->tid, NULL) == 'D')
		return true;
	held->state = HELD_NOT;
	return false;
}

int hold_wait(struct held *held, uint64_t until_ns)
{
	struct timespec pause = {0, 20000};

	while (!hold_look(held)) {
		if (now_ns() > until_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 500000)
			pause.tv_nsec += pause.tv_nsec / 4;
	}
	return 0;
}

/*
 * The tracer may be of a real-time class: threads that are to stop on its CPU
 * get there only while it sleeps.
 */
void hold_rest(uint64_t began_ns)
{
	uint64_t took = now_ns() - began_ns;
	const struct timespec pause = {0, (long)(took < REST_NS ? REST_NS : took < REST_MAX_NS ? took : REST_MAX_NS)};

	nanosleep(&pause, NULL);
}

static void let_go(struct held *held)
{
	if (held->state == HELD_STOPPED)
		ptrace(PTRACE_DETACH, held->tid, NULL, NULL);
	held->state = HELD_GONE;
}

/*
 * A thread that was interrupted and has not stopped yet may be on its way out of a call with EINTR: it has to stop to
 * be mended.  False: it has not stopped yet.
 */
static bool release_thread(struct held *held)
{
	if (held->state == HELD_NOT && !hold_look(held))
		return false;
	let_go(held);
	return true;
}

static bool release_all(struct held *held, size_t count, bool parents)
{
	bool all = true;

	for (size_t i = count; i--;)
		if (held[i].is_parent == parents)
			all &= release_thread(&held[i]);
	return all;
}

uint64_t hold_end(struct held *held, size_t count)
{
	uint64_t until = now_ns() + RELEASE_NS, first = 0, began;
	bool all;

	do {
		began = now_ns();
		all = release_all(held, count, true);
		if (all || now_ns() >= until) {
			all &= release_all(held, count, false);
			if (!first)
				first = now_ns();
		}
		tracer_is_alone(); /* sets the alarm anew, which would end the tracer */
		if (!all)
			hold_rest(began);
	} while (!first || (!all && now_ns() < until));
	return first;
}

int hold_poke(const struct held *held, uint64_t address, const void *bytes, size_t size, bool backwards)
{
	for (size_t done = 0; done < size; done += sizeof(long)) {
		size_t at = backwards ? size - sizeof(long) - done : done;
		long word;

		memcpy(&word, (const char *)bytes + at, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, held->tid, (void *)(uintptr_t)(address + at), (void *)word))
			return -errno;
	}
	return 0;
}
