/*
 * function_graph and function in full: filters, depth, threshold, frames that
 * ended without returning, other stacks, tail calls.
 *
 * Called by entry.S on the program's thread.  Context: probe.  A signal
 * handler may come in anywhere and run the same code; each step leaves a state
 * that it can work on, and a handler leaves a stack's top as it found it.
 *
 * What is known of a frame at slot S (arch/generic/runtime/contract.h):
 * mirror(S) = its return address, not 0 while it is live (or stale: left by
 * longjmp or an exception); link(S) = the slot of the next outer traced frame
 * of the same stack, bit 0 set when the frame wrote no ENTRY.  The current stack's top is the innermost frame's slot.
 * doc/design/stubs.md and stacks.md have the argument.
 */
#include <probe/frames.h>
#include <probe/graph.h>
#include <probe/handlers.h>
#include <probe/instances.h>
#include <probe/profile.h>
#include <probe/thread.h>
#include <probe/trigger.h>

/* The frame at slot keeps it closed no more. */
static void open_gate(uint64_t *gate, uint64_t slot)
{
	if (*gate == slot)
		*gate = 0;
}

static void settle_gate(uint64_t *gate, const struct probe_stack *stack, uint64_t slot)
{
	if (*gate && ~*gate && slot > *gate && *gate >= stack->lowest)
		*gate = 0;
}

/* Filters that lie by slot are over when the stack is above them: their frame was left without returning. */
static void settle_gates(struct probe_thread *thread, const struct probe_stack *stack, uint64_t slot)
{
	if (thread->tree && slot > thread->tree && thread->tree >= stack->lowest) {
		thread->tree = 0;
		thread->tree_gate = ~(uint64_t)0;
	}
	settle_gate(&thread->tree_gate, stack, slot);
	settle_gate(&thread->gate, stack, slot);
}

/* The one that stubs test that are made now: the filter may come and go while threads run (control.h, SET). */
static uint64_t *gate_of(struct probe_thread *thread)
{
	return probe_context.tree_filter ? &thread->tree_gate : &thread->gate;
}

/* Has the slot its place in the planes? */
static bool cover(struct probe_thread *thread, uint64_t slot)
{
	uint64_t granule = slot >> GRANULE_BITS;

	if (granule != thread->granule && !probe_mirror_cover(thread, slot))
		return false;
	return !probe_context.timed || granule == thread->timed || probe_timed_cover(thread, slot);
}

/* A call that comes in at slot: its stack; NULL when it cannot be traced.  *came: FRAME_CAME or 0. */
static struct probe_stack *arrive(struct probe_thread *thread, uint64_t slot, uint32_t word, const uint64_t *ret,
				  uint64_t *came)
{
	struct probe_stack *stack = NULL, *before = thread->stack;

	/* A frame that an exit handler waits for keeps its stub: the one that it has called as its last is not seen. */
	if (probe_can_record(thread) && (!probe_context.profile || probe_profile_has(thread, frames_id(word))) &&
	    cover(thread, slot) && !(probe_context.handled && probe_handled_waits(slot, *ret)))
		stack = probe_stack_settle(thread, slot);
	*came = stack && stack != before && stack->kind & STACK_SIGNAL ? FRAME_CAME : 0;
	if (stack)
		settle_gates(thread, stack, slot);
	return stack;
}

/* The same for a call that the session wants; one that cannot be traced is counted. */
static struct probe_stack *arrive_wanted(struct probe_thread *thread, uint64_t slot, uint32_t word, const uint64_t *ret,
					 uint64_t *came)
{
	struct probe_stack *stack = arrive(thread, slot, word, ret, came);

	if (!stack)
		probe_count_untraced(0);
	return stack;
}

/* Not to be traced after all. */
static int refuse(struct probe_thread *thread, struct probe_stack *stack, uint64_t came)
{
	if (came)
		probe_stack_leave(thread, stack);
	return 1;
}

/*
 * Frames may come to be timed while this one is on its way through here, with
 * planes that nobody has seen to.
 */
static bool is_timed(uint64_t slot)
{
	return probe_context.timed && (slot >> GRANULE_BITS == probe_self()->timed || probe_timed_is_covered(slot));
}

/* The frame is entered now; it is not in its chain yet, or goes on under another name. */
static void note_time(uint64_t slot)
{
	if (!is_timed(slot))
		return;
	*arch_within(slot) = 0;
	*arch_entered(slot) = arch_clock();
}

/* Who counts calls, or waits for this one, learns of it. */
static void tell_entered(struct probe_thread *thread, uint64_t slot, uint32_t word)
{
	if (probe_context.profile)
		probe_profile_open(thread, slot, frames_id(word));
	else if (is_timed(slot))
		probe_trigger_entered(thread, frames_id(word), *arch_entered(slot));
}

static void push_frame(struct probe_stack *stack, uint64_t slot, const uint64_t *ret, uint64_t flag)
{
	*arch_link(slot) = (probe_stack_is_empty(stack) ? stack->rest : probe_stack_top(stack)) | flag;
	note_time(slot);
	arch_frame_open(slot, ret);
	probe_stack_set_top(stack, slot);
}

/* The frame's function has called another in place of a return; `back` is in its stub. */
static void end_of_tail_caller(struct probe_thread *thread, const struct probe_stack *stack, uint64_t slot,
			       uint64_t back)
{
	uint32_t word = *arch_link(slot) & FRAME_UNRECORDED ? 0 : arch_stub_word(back);

	if (!probe_context.profile && word)
		probe_trigger_left(thread, frames_id(word), *arch_entered(slot), arch_clock());
	else if (word)
		probe_profile_close(thread, slot, frames_id(word), *arch_mirror(slot));
	else if (probe_context.profile)
		probe_profile_skip(stack, slot);
}

/*
 * The function was reached by a tail call: the frame in this slot goes on
 * under another name, and its return address stays where it is.
 */
static bool take_over_frame(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t word,
			    const uint64_t *ret)
{
	uint64_t link;

	if (!*arch_mirror(slot) || !probe_region_of(*ret))
		return false;
	frames_settle(thread, stack, slot, true);
	link = *arch_link(slot);
	if (is_timed(slot))
		end_of_tail_caller(thread, stack, slot, *ret);
	if ((link & FRAME_INSTANCES) | (word & WORD_DISPATCHED))
		link = probe_instances_tail(thread, link, word, *ret, *arch_mirror(slot));
	arch_frame_rename(slot, ret);
	note_time(slot);
	frames_count_down(thread, link);
	*arch_link(slot) =
		link & ~(FRAME_UNRECORDED | FRAME_COUNTED); /* its exit stub is this function's from now on */
	probe_record(thread, link & FRAME_UNRECORDED ? CALLTAP_REC_ENTRY : CALLTAP_REC_TAIL, frames_id(word), 1, 0);
	tell_entered(thread, slot, word);
	return true;
}

static int enter(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t word,
		 const uint64_t *ret, uint64_t came)
{
	if (take_over_frame(thread, stack, slot, word, ret))
		return 0;
	frames_settle(thread, stack, slot, false);
	probe_record(thread, CALLTAP_REC_ENTRY, frames_id(word), 1, 0);
	push_frame(stack, slot, ret, came | probe_instances_enter(thread, word, *ret));
	tell_entered(thread, slot, word);
	return 0;
}

/* The frame that was entered: its exit goes through C, or the count would not come down. */
static void count_depth(struct probe_thread *thread, uint64_t slot)
{
	uint32_t most = __atomic_load_n(&probe_context.depth_max, __ATOMIC_RELAXED);

	if (!most)
		return;
	thread->depth += !(*arch_link(slot) & FRAME_COUNTED);
	*arch_link(slot) |= FRAME_COUNTED;
	if (thread->depth >= most)
		*gate_of(thread) = slot;
}

int probe_graph_entry(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive_wanted(thread, slot, word, ret, &came);

	if (!stack)
		return 1;
	if (slot < *gate_of(thread))
		return refuse(thread, stack, came);
	/* Whose gate it was has gone, or goes on as a function whose exit may not come by here. */
	open_gate(&thread->gate, slot);
	open_gate(&thread->tree_gate, slot);
	return enter(thread, stack, slot, word, ret, came);
}

int probe_graph_entry_full(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	int refused = probe_graph_entry(slot, word, ret);

	if (!refused)
		count_depth(probe_self(), slot);
	return refused;
}

int probe_graph_entry_root(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive_wanted(thread, slot, word, ret, &came);

	if (!stack)
		return 1;
	if (!thread->tree) {
		if (slot < thread->tree_gate && ~thread->tree_gate)
			return refuse(thread, stack, came);
		thread->tree = slot;
		thread->tree_gate = 0;
	} else if (slot < thread->tree_gate) {
		return refuse(thread, stack, came);
	}
	enter(thread, stack, slot, word, ret, came);
	count_depth(thread, slot);
	return 0;
}

int probe_graph_entry_notree(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive_wanted(thread, slot, word, ret, &came);

	if (!stack)
		return 1;
	/* Reached by a tail call: the caller's exit stub must stay, so this one cannot be hidden. */
	if (slot < *gate_of(thread) || probe_region_of(*ret))
		return refuse(thread, stack, came);
	frames_settle(thread, stack, slot, false);
	push_frame(stack, slot, ret, FRAME_UNRECORDED | came | probe_instances_enter(thread, word, *ret));
	*gate_of(thread) = slot;
	return 0;
}

/* A frame at slot is being left: bring its stack in line, and tell the instances that have it. */
static void depart(struct probe_thread *thread, uint64_t slot, uint32_t word)
{
	struct probe_stack *stack = probe_stack_settle(thread, slot);

	if (stack)
		frames_settle(thread, stack, slot, true);
	if (*arch_link(slot) & FRAME_INSTANCES)
		probe_instances_exit(thread, *arch_link(slot), frames_id(word));
}

/* The function was reached by a tail call, and is not to be recorded: its caller's frame goes on without a record. */
static bool hide_frame(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t entered,
		       const uint64_t *ret)
{
	uint64_t link;
	uint32_t word;

	if (!*arch_mirror(slot) || !probe_region_of(*ret))
		return false;
	frames_settle(thread, stack, slot, true);
	link = *arch_link(slot);
	word = arch_stub_word(*ret);
	if (!(link & FRAME_UNRECORDED) && word)
		probe_record(thread, CALLTAP_REC_EXIT, frames_id(word), 1, 0);
	if ((link & FRAME_INSTANCES) | (entered & WORD_DISPATCHED))
		link = probe_instances_tail(thread, link, entered, *ret, *arch_mirror(slot));
	arch_frame_rename(slot, ret);
	frames_count_down(thread, link);
	*arch_link(slot) = (link & ~FRAME_COUNTED) | FRAME_UNRECORDED;
	return true;
}

int probe_graph_entry_hidden(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive(thread, slot, word, ret, &came);

	if (!stack) {
		probe_instances_missed(word);
		return 1;
	}
	open_gate(&thread->gate, slot);
	open_gate(&thread->tree_gate, slot);
	if (hide_frame(thread, stack, slot, word, ret))
		return 0;
	frames_settle(thread, stack, slot, false);
	push_frame(stack, slot, ret, FRAME_UNRECORDED | came | probe_instances_enter(thread, word, *ret));
	return 0;
}

/* Forget the frame at slot and give its return address back. */
static void pop_frame(struct probe_thread *thread, uint64_t slot, uint64_t *ret)
{
	uint64_t link = *arch_link(slot);
	struct probe_stack *stack = thread->stack;

	*ret = *arch_mirror(slot);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* an unwinder takes the mirror's word, or this when that is 0 */
	*arch_mirror(slot) = 0;
	open_gate(&thread->gate, slot);
	open_gate(&thread->tree_gate, slot);
	if (thread->tree == slot) {
		thread->tree = 0;
		thread->tree_gate = ~(uint64_t)0;
	}
	frames_count_down(thread, link);
	if (probe_stack_top(stack) == slot) {
		probe_stack_set_top(stack, frames_outer(stack, slot, link));
		if (link & FRAME_CAME && probe_can_record(thread))
			probe_stack_leave(thread, stack);
	}
}

void probe_graph_exit(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	if (probe_can_record(thread)) {
		depart(thread, slot, word);
		if (probe_context.profile)
			probe_profile_close(thread, slot, frames_id(word), *arch_mirror(slot));
		else
			probe_record(thread, CALLTAP_REC_EXIT, frames_id(word), 1, 0);
	}
	pop_frame(thread, slot, ret);
}

void probe_graph_exit_full(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	if (probe_can_record(thread)) {
		depart(thread, slot, word);
		if (probe_context.profile)
			probe_profile_close(thread, slot, frames_id(word), *arch_mirror(slot));
		else if (!probe_context.threshold_ticks ||
			 !probe_take_back(thread->writer, frames_id(word), arch_clock(), probe_context.threshold_ticks))
			probe_record(thread, CALLTAP_REC_EXIT, frames_id(word), 1, 0);
	}
	pop_frame(thread, slot, ret);
}

/* The time of a frame that was entered while there were no triggers is not known. */
static void tell_left(uint64_t slot, uint32_t word)
{
	struct probe_thread *thread = probe_self();

	if (probe_context.timed && !probe_context.profile && probe_timed_is_covered(slot) && probe_can_record(thread))
		probe_trigger_left(thread, frames_id(word), *arch_entered(slot), arch_clock());
}

void probe_trigger_exit(uint64_t slot, uint32_t word, uint64_t *ret)
{
	tell_left(slot, word);
	probe_graph_exit(slot, word, ret);
}

void probe_trigger_exit_full(uint64_t slot, uint32_t word, uint64_t *ret)
{
	tell_left(slot, word);
	probe_graph_exit_full(slot, word, ret);
}

void probe_graph_exit_notree(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	if (probe_can_record(thread)) {
		depart(thread, slot, word);
		if (probe_context.profile)
			probe_profile_skip(thread->stack, slot);
	}
	pop_frame(thread, slot, ret);
}

void probe_call(uint64_t caller, uint32_t word)
{
	struct probe_thread *thread = probe_self();

	if (probe_can_record(thread))
		probe_record(thread, CALLTAP_REC_CALL, frames_id(word), 2, caller);
	else
		probe_count_untraced(0);
}
