/*
 * Static programs that the program executes: no loader brings the agent in, so the tool is asked to hold this thread,
 * or the child that it is about to make, and puts the agent into the new program before that runs
 * (doc/design/loaderless.md).
 *
 * Called by exec.c, on the program's thread, also between vfork and exec and in signal handlers: raw system calls,
 * bounded waits, nothing written but on the stack and to the session's board.  Context: control.
 */
#include <agent/agent.h>
#include <agent/exec.h>
#include <base/sys.h>
#include <ring/writer.h>

#define NAP_NS	  200000u
#define WAIT_NAPS 4000u /* for the tool: about a second */
#define LEFT_NAPS 8000u /* for the tool to let go of a process that goes on after all */

/* Pairs with the tool's changes of the word. */
static bool change(struct calltap_board *board, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(&board->executing, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void nap(void)
{
	const struct sys_timespec step = {0, NAP_NS};

	SYS(nanosleep, &step, NULL, 0, 0, 0, 0);
}

/* Wait while the word is this thread's and the state is one of those in front of HELD: the state, 0 = it is another's.
 */
static uint64_t await_hold(const struct calltap_board *board, uint64_t tid)
{
	uint64_t word = 0;

	for (unsigned i = 0; i < WAIT_NAPS; i++) {
		word = __atomic_load_n(&board->executing, __ATOMIC_SEQ_CST);
		if (word / CALLTAP_EXECUTING_STATES != tid)
			return 0;
		if (word % CALLTAP_EXECUTING_STATES == CALLTAP_EXECUTING_HELD)
			break;
		nap();
	}
	return word % CALLTAP_EXECUTING_STATES;
}

/* The tool does not answer: nobody else need wait for so long. */
static void be_silent(struct calltap_board *board)
{
	uint32_t yes = CALLTAP_HOLDS_YES;

	__atomic_compare_exchange_n(&board->holds, &yes, CALLTAP_HOLDS_SILENT, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* The tool is to let go of this thread, if it has not yet, which goes on as soon as it has. */
static void withdraw(struct calltap_board *board, uint64_t tid)
{
	const uint64_t withdrawn = calltap_executing_word(tid, CALLTAP_EXECUTING_WITHDRAWN);

	if (change(board, calltap_executing_word(tid, CALLTAP_EXECUTING_ASKED), 0) ||
	    change(board, calltap_executing_word(tid, CALLTAP_EXECUTING_SPAWNS), 0) ||
	    (!change(board, calltap_executing_word(tid, CALLTAP_EXECUTING_TAKEN), withdrawn) &&
	     !change(board, calltap_executing_word(tid, CALLTAP_EXECUTING_HELD), withdrawn)))
		return;
	for (unsigned i = 0; i < LEFT_NAPS; i++) {
		if (__atomic_load_n(&board->executing, __ATOMIC_SEQ_CST) / CALLTAP_EXECUTING_STATES != tid)
			return;
		nap();
	}
	be_silent(board);
}

/* True if this thread would ask the tool: the kernel gives a program to the initial one. */
static bool would_ask(const struct calltap_board *board, bool spawns)
{
	return board && __atomic_load_n(&board->holds, __ATOMIC_RELAXED) != CALLTAP_HOLDS_NO && !board->reader_gone &&
	       (spawns || sys_gettid() == sys_getpid()) &&
	       /* A handler that came in front of this thread's call has the hold that the thread has asked for. */
	       __atomic_load_n(&board->executing, __ATOMIC_SEQ_CST) / CALLTAP_EXECUTING_STATES !=
		       (uint64_t)sys_gettid();
}

/* Ask, and wait for the answer. */
static enum exec_hold ask(struct calltap_board *board, uint64_t tid, bool spawns)
{
	uint64_t asks = calltap_executing_word(tid, spawns ? CALLTAP_EXECUTING_SPAWNS : CALLTAP_EXECUTING_ASKED), state;
	bool mine = false;

	for (unsigned i = 0; i < WAIT_NAPS && !mine; i++) {
		mine = change(board, 0, asks);
		if (!mine)
			nap();
	}
	if (mine) {
		ring_bell(board);
		state = await_hold(board, tid);
		if (!state || state == CALLTAP_EXECUTING_HELD)
			return state ? EXEC_HELD : EXEC_LEFT;
	}
	be_silent(board);
	if (mine)
		withdraw(board, tid);
	return EXEC_UNHEARD;
}

enum exec_hold exec_static_ask(const char *path, bool spawns)
{
	struct calltap_board *board = probe_context.shared.board;
	enum exec_hold hold = EXEC_UNHEARD;

	if (!would_ask(board, spawns) || exec_file_kind(path) != EXEC_STATIC)
		return EXEC_LEFT;
	if (__atomic_load_n(&board->holds, __ATOMIC_RELAXED) == CALLTAP_HOLDS_YES)
		hold = ask(board, (uint64_t)sys_gettid(), spawns);
	if (hold == EXEC_UNHEARD) {
		/* The program is counted before it runs: nothing of this one's is left then. */
		__atomic_add_fetch(&board->unheld, 1, __ATOMIC_RELAXED);
		ring_bell(board); /* a tool that goes on is to answer the next one */
	}
	return hold;
}

void exec_static_over(enum exec_hold hold, bool runs)
{
	struct calltap_board *board = probe_context.shared.board;

	if (hold == EXEC_HELD)
		withdraw(board, (uint64_t)sys_gettid());
	else if (hold == EXEC_UNHEARD && !runs)
		__atomic_sub_fetch(&board->unheld, 1, __ATOMIC_RELAXED);
}
