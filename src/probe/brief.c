/*
 * Entry and exit of functions whose calls may be brief, in C (brief.h).
 *
 * Called by brief.S on the program's thread.  Context: probe.
 */
#include <stddef.h>

#include <offsets.h>
#include <probe/brief.h>
#include <probe/frames.h>
#include <probe/graph.h>

_Static_assert(offsetof(struct calltap_times, tick) == TM_TICK, "brief.S");
_Static_assert(offsetof(struct calltap_times, every) == TM_EVERY, "brief.S");
_Static_assert(offsetof(struct calltap_times, brief) == TM_BRIEF, "brief.S");
_Static_assert(CALLTAP_REC_ENTRY << CALLTAP_RECORD_ID_BITS == KIND_ENTRY, "brief.S");
_Static_assert(CALLTAP_BRIEF_LEAF == BRIEF_LEAF && CALLTAP_BRIEF_LEAF >= CALLTAP_TIMES_FUNCTIONS, "brief.S");
_Static_assert(CALLTAP_REC_TAIL << CALLTAP_RECORD_ID_BITS == (KIND_ENTRY | TO_TAIL), "recorder.inc");
_Static_assert(CALLTAP_BRIEF_TAIL == BRIEF_TAIL && CALLTAP_BRIEF_TAIL >= CALLTAP_TIMES_FUNCTIONS, "brief.S");
_Static_assert((FRAME_UNRECORDED | FRAME_CAME | FRAME_COUNTED) == FRAME_LOW_FLAGS, "recorder.inc");
_Static_assert(__builtin_ctzll(FRAME_EXACT) == EXACT_BIT, "brief.S");

/* Wake the drainer, which wakes the ticker; where system calls may not be made, it looks by itself some time. */
static void ring_for_tick(void)
{
	uint64_t signals;

	if (!probe_calls_begin(&signals))
		return;
	ring_bell(probe_context.shared.board);
	probe_calls_end(&signals);
}

/* Does the tick move?  The ticker does not fall asleep from here on before the tick has changed. */
static bool tick_moves(struct calltap_board *board)
{
	bool first = !__atomic_load_n(&board->tick_seen, __ATOMIC_RELAXED);

	if (first)
		__atomic_store_n(&board->tick_seen, 1, __ATOMIC_RELAXED);
	/* Pairs with fall_asleep() in the ticker: it sees tick_seen, or this thread sees that it sleeps. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&board->ticker_asleep, __ATOMIC_RELAXED))
		return true;
	if (first)
		ring_for_tick();
	return false;
}

void probe_brief_see(uint64_t *seen, uint64_t tick)
{
	/* A tick of 0 is none that moves (agent/times.c): the thread has seen another one, so each exit gets its time.
	 */
	if (!tick)
		__atomic_store_n(seen, 1, __ATOMIC_RELAXED);
	else if (__atomic_load_n(seen, __ATOMIC_RELAXED) != tick && tick_moves(probe_context.shared.board))
		__atomic_store_n(seen, tick, __ATOMIC_RELAXED);
}

/*
 * The fast recorder draws a random number for each sample, of which the next one follows.  A new sub-buffer has none
 * ahead: the first of the entries from here on is one.
 */
static void begin_samples(struct probe_thread *thread)
{
	struct ring_writer *writer = thread->writer;

	if (!thread->seed)
		thread->seed = (uint32_t)(arch_clock() ^ (uint64_t)thread >> 6) | 1;
	if (writer->span && writer->span2 == writer->span - 8)
		writer->span2 = 0;
}

int probe_brief_entry(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t tick = probe_brief_tick(probe_times);
	int refused = probe_graph_entry(slot, word, ret);

	if (refused)
		return refused;
	probe_brief_see(&thread->tick, tick);
	*arch_link(slot) |= FRAME_EXACT;
	begin_samples(thread);
	return 0;
}

void probe_brief_exit(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t tick = probe_brief_tick(probe_times);

	probe_graph_exit(slot, word, ret);
	probe_brief_see(&thread->tick, tick);
}

/*
 * A leaf has no frame: its caller's address never left slot, and nothing but the record is to be made.  The thread's
 * last event may have been on another stack, by a handler that interrupted the leaf; and frames inside slot are gone.
 */
void probe_leaf_exit(uint64_t slot, uint32_t word)
{
	struct probe_thread *thread = probe_self();
	uint64_t tick = probe_brief_tick(probe_times);
	struct probe_stack *stack;

	if (!probe_can_record(thread))
		return;
	stack = probe_stack_settle(thread, slot);
	if (stack)
		frames_settle(thread, stack, slot, true);
	probe_record(thread, CALLTAP_REC_EXIT, frames_id(word), 1, 0);
	probe_brief_see(&thread->tick, tick);
}
