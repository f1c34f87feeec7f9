/*
 * Forked children that have made no traced call, and are about to write a change into the tree of the session's own
 * tool (host/tracefs): they have to call in before that, for a thread that waits in write() for the tool's answer
 * cannot be borrowed (strays.c).
 *
 * The tree says which thread waits in open().  A thread of the tool interrupts it there, then the tree answers EINTR,
 * the thread stops on its way back to user code, has the agent call in, and makes its call again
 * (doc/design/control.md, "fork").  Called by the thread that answers other processes.  Context: host; who asks may be
 * any process of the same user.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <host/proc.h>
#include <host/remote/remote.h>
#include <host/thread.h>

#include "session.h"

#define STEP_US	  100
#define ANSWER_NS 2000000000u /* the thread waits in open() no longer than that for this */

enum state {
	CALLER_WAITS,	 /* the thread waits in open() */
	CALLER_CATCHING, /* it is not to be answered yet */
	CALLER_CAUGHT,	 /* it is interrupted, and may be answered */
	CALLER_ANSWERED, /* it may be, and is not interrupted any more */
};

struct caller {
	struct caller *next;
	struct session *session;
	pthread_t thread;
	pid_t pid;
	int state; /* atomic, enum state */
	bool done; /* atomic: the thread is about to end */
};

static void take_step(void)
{
	const struct timespec step = {0, STEP_US * 1000};

	nanosleep(&step, NULL);
}

/* The tracer, and await_caught(): one of the two is first. */
static bool change(struct caller *caller, enum state state)
{
	int waits = CALLER_WAITS;

	return __atomic_compare_exchange_n(&caller->state, &waits, state, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static bool on_begin(void *context)
{
	return change(context, CALLER_CATCHING);
}

static void on_interrupted(void *context)
{
	struct caller *caller = context;

	__atomic_store_n(&caller->state, CALLER_CAUGHT, __ATOMIC_SEQ_CST); /* pairs with await_caught() */
}

static bool is_done(const struct caller *caller)
{
	return __atomic_load_n(&caller->done, __ATOMIC_ACQUIRE); /* pairs with call_in_main() */
}

static void *call_in_main(void *argument)
{
	struct caller *caller = argument;
	const struct attach_caught caught = {on_begin, on_interrupted, caller};
	struct calltap_diag why = {.column = -1};

	/* Where it fails, the child's write() meets strays_call(), which tells. */
	(void)!strays_bring_in(caller->session, caller->pid, &caught, &why);
	__atomic_store_n(&caller->done, true, __ATOMIC_RELEASE); /* pairs with is_done() */
	return NULL;
}

/* Free those whose threads have ended, or wait for all; with the lock, or where nobody else has the list. */
static void reap(struct session *session, bool all)
{
	for (struct caller **at = &session->callers; *at;) {
		struct caller *caller = *at;

		if (!all && !is_done(caller)) {
			at = &caller->next;
			continue;
		}
		pthread_join(caller->thread, NULL);
		*at = caller->next;
		free(caller);
	}
}

/* With the lock.  True: somebody has the process call in just now. */
static bool is_coming(const struct session *session, pid_t pid)
{
	for (const struct caller *caller = session->callers; caller; caller = caller->next)
		if (caller->pid == pid && !is_done(caller))
			return true;
	return false;
}

static struct caller *begin(struct session *session, pid_t pid)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (!caller)
		return NULL;
	caller->session = session;
	caller->pid = pid;
	if (thread_start(&caller->thread, call_in_main, caller)) {
		free(caller);
		return NULL;
	}
	caller->next = session->callers;
	session->callers = caller;
	return caller;
}

/*
 * Wait until the thread is interrupted.  That may take long, as where another tool is busy with its process: then it is
 * answered, and left alone.  Between a begin and the interrupt there are two instructions of the tracer.
 */
static bool await_caught(struct caller *caller)
{
	const uint64_t until = clock_now_ns() + ANSWER_NS;
	int state;

	do {
		take_step();
		state = __atomic_load_n(&caller->state, __ATOMIC_SEQ_CST); /* pairs with the tracer's changes */
		if (state == CALLER_WAITS && clock_now_ns() > until && change(caller, CALLER_ANSWERED))
			return false;
	} while (state != CALLER_CAUGHT && !is_done(caller));
	return __atomic_load_n(&caller->state, __ATOMIC_SEQ_CST) == CALLER_CAUGHT;
}

enum remote_catch callers_catch(struct session *session, pid_t tid)
{
	struct caller *caller = NULL;
	const pid_t parent = proc_parent(tid);
	bool may, coming;

	/* Another thread of a child is left alone: its initial one can be borrowed while it waits. */
	if (proc_number(tid, "Tgid") != tid || parent < 0 || !strays_has_board(session, tid) ||
	    proc_share_memory(tid, parent))
		return REMOTE_CATCH_NOT;
	session_lock(session);
	reap(session, false);
	may = strays_may_call(session, tid);
	coming = is_coming(session, tid);
	if (may && !coming)
		caller = begin(session, tid);
	session_unlock(session);
	/* Nobody else frees it: requests are answered one at a time. */
	if (caller && await_caught(caller))
		return REMOTE_CATCH_CAUGHT;
	return may && coming ? REMOTE_CATCH_COMING : REMOTE_CATCH_NOT;
}

bool callers_is_coming(struct session *session, pid_t pid)
{
	bool coming;

	session_lock(session);
	coming = is_coming(session, pid);
	session_unlock(session);
	return coming;
}

void callers_end(struct session *session)
{
	reap(session, true);
}
