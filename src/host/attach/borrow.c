/*
 * Borrowing a thread (borrow.h).
 *
 * Each try is a tracer of its own, which ends at once.  Copies show first what a thread is doing, while it runs on;
 * only a thread that was found in a good place is stopped a second time, looked at again, and sent away.  Context:
 * host.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <time.h>

#include "borrow.h"

#define TRY_NS	  1000000000u  /* for a thread to get to run, and stop: it is not held before */
#define MAIN_NS	  4000000000u  /* for the initial thread, which must be seen */
#define OTHERS_NS 500000000u   /* for threads that wait for no event, before those that do are looked for again */
#define SENDS_MAX 8u	       /* tries to send a thread away that was found in a good place */
#define ALONE_NS  30000000000u /* for a caught thread to be answered when the tool is gone: by another tool's tree */

#define WAKES_NS 500000000u /* for a thread that a signal has woken to sleep on */

/* Between two such tries, and between two looks at all threads. */
#define SEND_STEP_NS	 200000
#define LOOK_STEP_NS	 500000
#define LOOK_STEP_MAX_NS 4000000

/* Between two looks at a caught thread. */
#define CAUGHT_STEP_NS	   30000
#define CAUGHT_STEP_MAX_NS 2000000
#define COPY_MAX	   (64u << 10)

/* The signal by which libc has all threads do something: musl's, glibc's. */
#define MUSL_SIGSYNCCALL 34
#define GLIBC_SIGSETXID	 33

/* ptrace()'s PTRACE_GET_RSEQ_CONFIGURATION, since Linux 5.13, and what it answers. */
#define GET_RSEQ_CONFIGURATION 0x420f
struct rseq_configuration {
	uint64_t address;
	uint32_t size, signature, flags, pad;
};

/* linux/rseq.h: a sequence that the kernel restarts when the thread is elsewhere meanwhile. */
struct rseq_sequence {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

struct attempt {
	struct borrow *borrow;
	pid_t tid;
	bool send;			    /* send the thread away if it is safe */
	bool stopped;			    /* the thread could be looked at */
	bool sent;			    /* the thread is on its errand */
	const struct attach_caught *caught; /* NULL, or the thread waits for an answer of the tool's */
	struct held held;
	struct stack_copy copy;
	unsigned char *bytes;
};

/* In a restartable sequence the thread cannot be sent away: the kernel would forget the sequence. */
static bool in_rseq(const struct held *held)
{
	struct rseq_configuration where = {0};
	struct rseq_sequence sequence;
	uint64_t at = 0;

	if (ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, held->tid, (void *)sizeof(where), &where) <= 0)
		return false;
	if (memory_read(held->tid, where.address + 8, &at, sizeof(at)) || !at)
		return false;
	if (memory_read(held->tid, at, &sequence, sizeof(sequence)))
		return true;
	return native_pc(&held->regs) - sequence.start < sequence.length;
}

static void copy_thread(struct attempt *attempt)
{
	struct stack_copy *copy = &attempt->copy;
	struct attach_range live;

	memset(copy, 0, sizeof(*copy));
	copy->tid = attempt->tid;
	copy->bytes = attempt->bytes;
	native_dwarf(&attempt->held.regs, copy->values);
	if (!scan_live(&attempt->borrow->space, native_sp(&attempt->held.regs), COPY_MAX, &live))
		return;
	if (memory_read(attempt->tid, live.lo, attempt->bytes, live.hi - live.lo))
		return;
	copy->lo = live.lo;
	copy->hi = live.hi;
}

static bool is_safe(struct attempt *attempt)
{
	struct borrow *borrow = attempt->borrow;

	return safe_to_borrow(borrow->unwinder, &borrow->libs, attempt->tid, &attempt->held.regs, &attempt->copy,
			      &borrow->why);
}

static uint64_t status_mask(pid_t tid, const char *name)
{
	char value[64];

	return proc_status(tid, name, value, sizeof(value)) ? 0 : strtoull(value, NULL, 16);
}

/*
 * The signal by which libc has all threads do something, as setuid() does.  Its sender holds the list of threads, which
 * dlopen() takes, until each has answered.
 */
static uint64_t internal_signal(const struct borrow *borrow)
{
	return 1ull << ((borrow->libs.musl ? MUSL_SIGSYNCCALL : GLIBC_SIGSETXID) - 1);
}

/*
 * Has an instruction of the thread's own raised a signal that is not delivered yet?  A stop may come between the two.
 * The handler looks where the thread is, so it has to find it there, and not on the errand.
 */
static bool has_raised(pid_t tid, uint64_t blocked)
{
	static const int raised[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
	uint64_t mask = 0;

	for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++)
		mask |= 1ull << (raised[i] - 1);
	return status_mask(tid, "SigPnd") & mask & ~blocked;
}

/*
 * All signals but those that are ignored.  The kernel drops an ignored signal when it is sent, unless it is blocked:
 * then the kernel keeps it, and wakes another thread, whose call may end with EINTR for nothing.  Most are SIGCHLD.
 * Nor is libc's own blocked: the thread answers it on the errand, too.
 */
static uint64_t signals_to_block(const struct borrow *borrow, pid_t tid)
{
	const uint64_t idle =
		1ull << (SIGCHLD - 1) | 1ull << (SIGCONT - 1) | 1ull << (SIGURG - 1) | 1ull << (SIGWINCH - 1);

	return ~(status_mask(tid, "SigIgn") | (idle & ~status_mask(tid, "SigCgt")) | internal_signal(borrow));
}

/* After the one PTRACE_SETREGSET all is in the target: the tool may be killed before and behind each line. */
bool borrow_send(struct borrow *borrow, struct held *held)
{
	struct native_regs regs = held->regs;
	struct iovec registers = {&regs, sizeof(regs)};
	unsigned char code[NATIVE_CODE_MAX];

	if (ptrace((enum __ptrace_request)PTRACE_GETSIGMASK, held->tid, (void *)8, &borrow->errand.signal_mask))
		return false;
	/* The thread is in the signal's handler, and has not answered yet. */
	if (borrow->errand.signal_mask & internal_signal(borrow)) {
		borrow->why = "libc has all its threads do something just now";
		return false;
	}
	if (has_raised(held->tid, borrow->errand.signal_mask)) {
		borrow->why = "an instruction of its own has raised a signal";
		return false;
	}
	if (!slack_is_free(held->tid, &borrow->slack)) {
		borrow->why = "another tool is attaching to it";
		return false;
	}
	native_code_make(code, borrow->slack.address, &borrow->errand, &regs);
	if (hold_poke(held, borrow->slack.address, code, borrow->slack.size, false))
		return false;
	if (!ptrace(PTRACE_SETREGSET, held->tid, NT_PRSTATUS, &registers)) {
		/*
		 * A signal that came during the stop is to find the thread in its call, not in the errand, whose end
		 * undoes this.
		 */
		ptrace((enum __ptrace_request)PTRACE_SETSIGMASK, held->tid, (void *)sizeof(borrow->errand.blocked),
		       &borrow->errand.blocked);
		return true;
	}
	/* The thread was killed, most likely. */
	if (hold_poke(held, borrow->slack.address, borrow->slack.original, borrow->slack.size, true))
		return false;
	return false;
}

/*
 * Wait until a caught thread has its answer, and stops.  Until then it sleeps in the kernel, and the tracer stays: the
 * answer may be EINTR, which only a tracer mends.  A tool that is killed gives no answer.  Then the thread has an error
 * when nobody has the device of the tool's file system any more, as this tracer has.
 */
static int await_answered(struct held *held)
{
	struct timespec pause = {0, CAUGHT_STEP_NS};
	uint64_t alone_ns = 0;

	while (!hold_look(held) || held->state == HELD_ASLEEP) {
		if (!alone_ns && tracer_is_alone()) {
			alone_ns = now_ns();
			tracer_close_all();
		}
		if (tracer_is_alone() && now_ns() - alone_ns > ALONE_NS)
			return -ETIMEDOUT;
		if (held->state == HELD_ASLEEP)
			(void)hold_sleeps(held); /* it has woken up: it is to stop now */
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < CAUGHT_STEP_MAX_NS)
			pause.tv_nsec += pause.tv_nsec / 4;
	}
	return held->reopens ? 0 : -EAGAIN;
}

/* Wait until the thread has stopped; *began: when it did, or could have. */
static int await_stop(struct attempt *attempt, uint64_t *began)
{
	struct held *held = &attempt->held;
	int ret;

	if (!attempt->caught)
		return hold_wait(held, *began + (attempt->tid == attempt->borrow->pid ? MAIN_NS : TRY_NS));
	attempt->caught->interrupted(attempt->caught->context);
	ret = await_answered(held);
	*began = now_ns();
	return ret;
}

/* Runs in the tracer. */
static int try_thread(void *context)
{
	struct attempt *attempt = context;
	struct held *held = &attempt->held;
	uint64_t began = now_ns(), elapsed;
	int ret = hold_seize(held, attempt->tid);

	held->is_caught = attempt->caught != NULL;
	/* Nothing was asked of the thread: it is let go of when this tracer ends. */
	if (!ret && attempt->caught && (!tracer_is_process() || !attempt->caught->begins(attempt->caught->context)))
		ret = -EAGAIN;
	if (ret)
		return ret;
	hold_interrupt(held);
	ret = await_stop(attempt, &began);
	attempt->stopped = !ret && held->state == HELD_STOPPED && !held->dispatches && !in_rseq(held);
	attempt->borrow->dispatches |= !ret && held->dispatches;
	if (attempt->stopped) {
		copy_thread(attempt);
		if (attempt->tid == attempt->borrow->pid) {
			attempt->borrow->main_thread = native_thread_pointer(&held->regs);
			attempt->borrow->main_known = true;
		}
		/* The thread may have entered a sandbox since it was chosen, which forbids the errand's calls. */
		if (attempt->send && !tracer_is_alone() && !sandbox_has(attempt->tid)) {
			attempt->copy.alive = attempt->tid;
			attempt->sent = is_safe(attempt) && borrow_send(attempt->borrow, &attempt->held);
		}
	}
	hold_end(held, 1);
	attempt->borrow->cut_short += held->cut_short; /* it may have stopped just now */
	elapsed = now_ns() - began;
	if (attempt->stopped && elapsed > attempt->borrow->stop_ns)
		attempt->borrow->stop_ns = elapsed;
	return 0;
}

/* False: a stop would cut the thread's transfer short, and it has not been waited for long enough. */
static bool may_stop(struct borrow *borrow, pid_t tid)
{
	if (now_ns() >= borrow->spare_until_ns || !transfers_has(tid))
		return true;
	borrow->why = "a system call that has moved a part of its data was not to be interrupted";
	return false;
}

static bool try_to_send(struct borrow *borrow, pid_t tid, unsigned char *bytes)
{
	struct attempt attempt = {.borrow = borrow, .tid = tid, .bytes = bytes};

	if (!may_stop(borrow, tid) || tracer_run(try_thread, &attempt) || !attempt.stopped)
		return false;
	/* The copy is looked at while the thread runs on: files are read now, if they have to be. */
	if (!borrow->main_known || !is_safe(&attempt))
		return false;
	/* A thread that is in the allocator most of the time is in a good place again soon. */
	attempt.send = true;
	for (unsigned sends = 0; sends < SENDS_MAX && !attempt.sent && attempt.stopped; sends++) {
		if (sends)
			nanosleep(&(struct timespec){0, SEND_STEP_NS}, NULL);
		borrow->errand.blocked = signals_to_block(borrow, tid);
		if (!may_stop(borrow, tid) || tracer_run(try_thread, &attempt))
			return false;
	}
	if (attempt.sent)
		borrow->tid = tid;
	return attempt.sent;
}

/* The initial thread's pointer is needed whichever thread is borrowed. */
static void look_at_main(struct borrow *borrow, unsigned char *bytes)
{
	struct attempt attempt = {.borrow = borrow, .tid = borrow->pid, .bytes = bytes};
	char state = proc_state(borrow->pid, NULL);

	if (!state || strchr("ZX", state))
		borrow->main_known = true;
	else if (state == 'D')
		borrow->why = "its initial thread sleeps in the kernel";
	else if (may_stop(borrow, borrow->pid) && tracer_run(try_thread, &attempt))
		borrow->why = proc_number(borrow->pid, "TracerPid") > 0
				      ? "its initial thread is being traced by another process"
				      : "its initial thread cannot be stopped";
}

enum kind { KIND_OTHER, KIND_WAITS, KIND_AWAY };

static enum kind kind_of(pid_t tid)
{
	char state = proc_state(tid, NULL);
	struct proc_sleep sleep;

	if (!state || strchr("ZXDTt", state) || sandbox_has(tid))
		return KIND_AWAY;
	return !proc_asleep(tid, &sleep) && native_call_waits(sleep.number) ? KIND_WAITS : KIND_OTHER;
}

/*
 * Try each thread of a kind once, until the time `until`; threads that wait for no event from the one on at which the
 * last look ended.  True: a thread is on its way.
 */
static bool try_kind(struct borrow *borrow, enum kind kind, const pid_t *tids, size_t count, uint64_t until,
		     unsigned char *bytes)
{
	size_t first = kind == KIND_OTHER && count ? borrow->others % count : 0;

	for (size_t i = 0; i < count && now_ns() < until; i++) {
		pid_t tid = tids[(first + i) % count];

		borrow->others += kind == KIND_OTHER;
		if (kind_of(tid) == kind && try_to_send(borrow, tid, bytes))
			return true;
	}
	return false;
}

/*
 * Look once for a thread to borrow.  Threads that wait for events are best, and the initial thread among them.  The
 * other threads are tried for OTHERS_NS only: in a crowd they would take all the patience, and a thread that waits for
 * an event meanwhile would not be seen.
 */
static bool try_all(struct borrow *borrow, uint64_t until, unsigned char *bytes)
{
	uint64_t pause;
	size_t count;
	pid_t *tids;
	bool sent;

	if (!borrow->main_known)
		look_at_main(borrow, bytes);
	if (proc_threads(borrow->pid, &tids, &count))
		return false;
	sent = try_kind(borrow, KIND_WAITS, tids, count, until, bytes);
	pause = now_ns() + OTHERS_NS;
	if (!sent)
		sent = try_kind(borrow, KIND_OTHER, tids, count, pause < until ? pause : until, bytes);
	free(tids);
	return sent;
}

/* A signal wakes the thread once: it goes on to sleep until it has its answer. */
static bool waits_in_open(pid_t tid)
{
	const struct timespec step = {0, CAUGHT_STEP_NS};
	const uint64_t until = now_ns() + WAKES_NS;
	struct proc_sleep sleep;
	int ret = proc_asleep(tid, &sleep);

	while (ret == -EAGAIN && now_ns() < until) {
		nanosleep(&step, NULL);
		ret = proc_asleep(tid, &sleep);
	}
	return !ret && native_call_opens(sleep.number);
}

int borrow_caught(struct borrow *borrow, const struct attach_caught *caught, struct calltap_diag *diag)
{
	struct attempt attempt = {.borrow = borrow, .tid = borrow->pid, .send = true, .caught = caught};
	int ret;

	if (!waits_in_open(borrow->pid))
		return calltap_diag_set(diag, -EAGAIN, "process %d is not in open()", (int)borrow->pid);
	attempt.bytes = malloc(COPY_MAX + PAGE);
	if (!attempt.bytes)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	borrow->why = "its thread was answered, or is stopped by other means";
	borrow->errand.blocked = signals_to_block(borrow, borrow->pid);
	ret = tracer_run(try_thread, &attempt);
	free(attempt.bytes);
	if (ret)
		borrow->why = "its thread cannot be stopped";
	borrow->tid = borrow->pid;
	if (attempt.sent)
		return 0;
	return calltap_diag_set(diag, -EAGAIN, "process %d has no thread that could load %.200s (%s)", (int)borrow->pid,
				borrow->what, borrow->why);
}

int borrow_thread(struct borrow *borrow, uint32_t patience_ms, struct calltap_diag *diag)
{
	uint64_t until = now_ns() + patience_ms * 1000000ull;
	struct timespec pause = {0, LOOK_STEP_NS};
	unsigned char *bytes = malloc(COPY_MAX + PAGE);
	bool sent = false;

	if (!bytes)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	borrow->why = "none of its threads could be stopped";
	borrow->spare_until_ns = now_ns() + ATTACH_TRANSFERS_NS;
	while (!sent && proc_alive(borrow->pid)) {
		sent = try_all(borrow, until, bytes);
		if (sent || borrow->dispatches || now_ns() > until ||
		    (borrow->gives_up && borrow->gives_up(borrow->gives_up_context)))
			break;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LOOK_STEP_MAX_NS)
			pause.tv_nsec *= 2;
	}
	free(bytes);
	if (sent)
		return 0;
	if (borrow->dispatches)
		return calltap_diag_set(diag, -EPERM,
					"process %d answers system calls itself (syscall user dispatch), and would get "
					"the agent's; start it under 'calltap record', which comes before that",
					(int)borrow->pid);
	if (!proc_alive(borrow->pid))
		return calltap_diag_set(diag, -ESRCH, "process %d has ended", (int)borrow->pid);
	return calltap_diag_set(
		diag, -EAGAIN, "process %d has no thread that could load %.200s within %u ms (%s); try again%s",
		(int)borrow->pid, borrow->what, patience_ms, borrow->why,
		/* Where a compiler writes no unwind tables, as Free Pascal's, that may be so for ever. */
		strstr(borrow->why, "cannot be followed") ? ", or start it under 'calltap record'" : "");
}
