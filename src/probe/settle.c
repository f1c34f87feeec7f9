/*
 * The chains of traced frames: how frames that are gone are taken off, and what
 * ends with them (frames.h).
 *
 * Called by graph.c and unwound.c on the program's thread.  Context: probe.
 */
#include <probe/frames.h>
#include <probe/instances.h>
#include <probe/profile.h>

#define WALK_MAX    (1u << 24)
#define NEAR_FRAMES 16 /* innermost frames that a new one may lie over */

void frames_gates_open(struct probe_thread *thread, uint64_t slot)
{
	if (thread->gate == slot)
		thread->gate = 0;
	if (thread->root_gate == slot)
		thread->root_gate = 0;
	if (thread->tree_gate == slot)
		thread->tree_gate = thread->tree ? 0 : ~(uint64_t)0;
}

void frames_filters_end(struct probe_thread *thread, uint64_t slot)
{
	frames_gates_open(thread, slot);
	if (thread->tree != slot)
		return;
	thread->tree = 0;
	thread->tree_word = 0;
	thread->tree_gate = ~(uint64_t)0;
}

uint32_t frames_take_off(struct probe_thread *thread, struct probe_stack *stack, uint64_t end)
{
	uint64_t top = probe_stack_top(stack),
		 now = probe_context.profile && top < end ? probe_profile_clock(thread) : 0;
	struct probe_instances_gone further;
	uint32_t gone = 0, walked = 0;

	further.sets = 0;

	for (; top < end && top < stack->end && walked++ < WALK_MAX && frames_can_read(thread, top);) {
		uint64_t link = *arch_link(top);

		if (probe_context.profile)
			probe_profile_gone(thread, stack, top, now);
		gone += !(link & FRAME_UNRECORDED);
		frames_filters_end(thread, top);
		frames_count_down(thread, link);
		if (link & FRAME_INSTANCES)
			probe_instances_count(thread, top, link, &further);
		top = frames_outer(stack, top, link);
	}
	if (further.sets)
		probe_instances_unwound(thread, &further);
	probe_stack_set_top(stack, top < end ? stack->end : top);
	return gone;
}

void frames_drop(struct probe_thread *thread, struct probe_stack *stack, uint64_t end)
{
	uint32_t gone = frames_take_off(thread, stack, end);

	if (gone)
		probe_record(thread, CALLTAP_REC_UNWIND, gone, 1, 0);
}

/*
 * When a thread is ended, glibc's unwinder stops short of the outermost frame, and calls the destructors of the
 * thread's data from that frame's caller: then other things than a stub's address lie where frames that are gone kept
 * their return.  Perhaps not in each frame's place, but all frames inside a frame that is gone are gone.
 */
static void drop_overwritten(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot)
{
	uint64_t top = probe_stack_top(stack), gone = 0, back;

	for (unsigned i = 0; i < NEAR_FRAMES && top < stack->end && frames_can_read(thread, top); i++) {
		if (frames_back(top, &back) && !probe_region_of(arch_frame_holds(top, slot)))
			gone = top + 1;
		top = frames_outer(stack, top, *arch_link(top));
	}
	if (gone)
		frames_drop(thread, stack, gone);
}

void frames_settle(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, bool leaving)
{
	frames_drop(thread, stack, leaving ? slot : slot + 1);
	if (stack->kind & STACK_ENDING && !leaving)
		drop_overwritten(thread, stack, slot);
	if (!leaving && slot >= stack->rest)
		probe_stack_rise(thread, stack, slot);
}
