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
_Static_assert(CALLTAP_REC_TAIL << CALLTAP_RECORD_ID_BITS == (KIND_ENTRY | TO_TAIL), "recorder.inc");
_Static_assert(CALLTAP_BRIEF_TAIL == BRIEF_TAIL && CALLTAP_BRIEF_TAIL >= CALLTAP_TIMES_FUNCTIONS, "brief.S");
_Static_assert((FRAME_UNRECORDED | FRAME_CAME | FRAME_COUNTED) == FRAME_LOW_FLAGS, "recorder.inc");
_Static_assert(__builtin_ctzll(FRAME_EXACT) == EXACT_BIT, "brief.S");

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
	thread->tick = probe_brief_seen(tick);
	*arch_link(slot) |= FRAME_EXACT;
	begin_samples(thread);
	return 0;
}

void probe_brief_exit(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t tick = probe_brief_tick(probe_times);

	probe_graph_exit(slot, word, ret);
	thread->tick = probe_brief_seen(tick);
}
