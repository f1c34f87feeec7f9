/*
 * Open frames at the beginning of a sub-buffer (open.h).
 *
 * The code here follows the chain of frames of the thread's current stack outwards.  A flight recorder's thread writes
 * an OPEN record for each frame that has an ENTRY, up to the first frame that cannot be named: the list has no gap.
 * Behind a loss the thread counts these frames.  Context: probe.
 */
#include <probe/frames.h>
#include <probe/open.h>

#define WORDS_EACH  2
#define PART_OF_SUB 4	       /* the frames take at most this fraction of a sub-buffer */
#define UNTOLD_MAX  1024       /* frames without an ENTRY that are passed by at the most */
#define COUNTED_MAX (1u << 16) /* frames that are counted at the most: signals are blocked meanwhile */

static void put(struct ring_writer *writer, uint32_t id, uint64_t second)
{
	const struct calltap_subbuf *sub = (const struct calltap_subbuf *)writer->base - 1;
	uint64_t *slot = ring_take(writer, WORDS_EACH);

	if (slot)
		ring_put2(slot, calltap_record_make(CALLTAP_REC_OPEN, id, (uint32_t)sub->ticks), second);
}

/*
 * Find the function of a frame whose entry's time is known.  False: not known.  A frame that came by the dispatcher has
 * other things in the place of that time (handlers.h).  On some CPUs the slot does not show the function once its body
 * has returned to its stub: for the innermost frame *id is ID_MAX then.
 */
static bool identify(const struct probe_thread *thread, uint64_t slot, bool innermost, uint32_t *id)
{
	const struct probe_region *region = NULL;
	uint64_t back;
	uint32_t word = 0;

	if (!probe_timed_is_covered(slot))
		return false;
	if (frames_back_in_calls(slot, &back))
		region = probe_region_of(back);
	if (region)
		word = frames_word(thread, slot, arch_stub_word(back));
	*id = word ? frames_id(word) : CALLTAP_RECORD_ID_MAX;
	return word ? !arch_stub_is_handled(back, region->lo) : innermost && !probe_context.handled;
}

static bool tell_frame(const struct probe_thread *thread, uint64_t slot, bool innermost)
{
	uint32_t id;

	if (!identify(thread, slot, innermost, &id))
		return false;
	put(thread->writer, id, *arch_entered(slot));
	return true;
}

void probe_open_tell(struct probe_thread *thread)
{
	const struct probe_stack *stack = thread->stack;
	struct ring_writer *writer = thread->writer;
	uint64_t slot = probe_stack_top(stack), room = writer->span / (PART_OF_SUB * WORDS_EACH * sizeof(slot));
	uint32_t told = 0, untold = 0;

	if (!probe_context.tells_open || slot >= stack->end)
		return;
	put(writer, CALLTAP_RECORD_ID_MAX, stack->end - 1);
	while (slot < stack->end && frames_can_read(thread, slot) && told < CALLTAP_RECORD_OPEN_MAX &&
	       told + 1 < room && untold < UNTOLD_MAX) {
		uint64_t link = *arch_link(slot);

		if (link & FRAME_UNRECORDED)
			untold++;
		else if (tell_frame(thread, slot, !told))
			told++;
		else
			break;
		slot = frames_outer(stack, slot, link);
	}
}

/* Frames of the stack that have an ENTRY, + 1; 0: there are too many, or their planes are not there. */
static uint32_t count_frames(struct probe_thread *thread, const struct probe_stack *stack)
{
	uint64_t slot = probe_stack_top(stack);
	uint32_t count = 0, walked = 0;

	for (; slot < stack->end && frames_can_read(thread, slot) && walked < COUNTED_MAX; walked++) {
		uint64_t link = *arch_link(slot);

		count += !(link & FRAME_UNRECORDED);
		slot = frames_outer(stack, slot, link);
	}
	return slot == stack->end ? count + 1 : 0;
}

uint32_t probe_open_id(struct probe_thread *thread, struct probe_stack *stack)
{
	if (stack->loss == thread->losses)
		return 0;
	stack->loss = thread->losses;
	return count_frames(thread, stack);
}

void probe_open_count(struct probe_thread *thread, unsigned set)
{
	struct ring_writer *writer = set ? thread->further[set - 1].writer : thread->writer;
	const struct calltap_subbuf *sub = (const struct calltap_subbuf *)writer->base - 1;
	uint64_t *record, address = 0;
	uint32_t id;

	if (set) {
		id = thread->further[set - 1].depth + 1;
	} else {
		thread->losses++;
		thread->continues = 0;
		if (thread->stack == &probe_stack_none || probe_context.profile)
			return;
		id = probe_open_id(thread, thread->stack);
		address = thread->stack->end - 1;
	}
	record = id ? ring_take(writer, 2) : NULL;
	if (record)
		ring_put2(record, calltap_record_make(CALLTAP_REC_STACK, id, (uint32_t)sub->ticks), address);
}
