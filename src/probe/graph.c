/*
 * Tracers function_graph and function in full: filters, depth, threshold, frames that ended without returning, other
 * stacks, tail calls.
 *
 * Called by entry.S on the program's thread.  Context: probe.  A signal handler may come in anywhere and run the same
 * code; each step leaves a state that the handler can work on, and a handler leaves a stack's top as it found it.
 *
 * What the planes hold of a frame at slot S (arch/generic/runtime/contract.h): mirror(S) = its return address, not 0
 * while the frame is open (or stale: left by longjmp or an exception); link(S) = the slot of the next outer traced
 * frame of the same stack, and flags (frames.h).  The current stack's top is the innermost frame's slot.
 * doc/design/stubs.md and stacks.md have the argument.
 */
#include <probe/frames.h>
#include <probe/graph.h>
#include <probe/handlers.h>
#include <probe/instances.h>
#include <probe/profile.h>
#include <probe/thread.h>
#include <probe/trigger.h>

static void settle_gate(struct probe_thread *thread, uint64_t gate, const struct probe_stack *stack, uint64_t end)
{
	if (gate && gate < end && gate >= stack->lowest)
		frames_gates_open(thread, gate);
}

/* A call at slot ends the filters whose frames lie at slot or farther in: those frames were left without returning. */
static void settle_gates(struct probe_thread *thread, const struct probe_stack *stack, uint64_t slot, uint64_t ret)
{
	uint64_t end = slot + !frames_is_tail(slot, ret); /* after a tail call the frame goes on */

	if (thread->tree && thread->tree < end && thread->tree >= stack->lowest)
		frames_filters_end(thread, thread->tree);
	settle_gate(thread, thread->tree_gate, stack, end);
	settle_gate(thread, thread->root_gate, stack, end);
	settle_gate(thread, thread->gate, stack, end);
}

/* The gate that stubs test which are made now: the tree filter may come and go while threads run (control.h, SET). */
static uint64_t *gate_of(struct probe_thread *thread)
{
	return probe_context.tree_filter ? &thread->tree_gate : &thread->gate;
}

/* Give the slot its planes; false: it cannot have them. */
static bool cover(struct probe_thread *thread, uint64_t slot)
{
	uint64_t granule = slot >> GRANULE_BITS;

	if (granule != thread->granule && !probe_mirror_cover(thread, slot))
		return false;
	if (probe_context.timed && granule != thread->timed && !probe_timed_cover(thread, slot))
		return false;
	return !probe_context.handled || granule == thread->handled || probe_handled_cover(thread, slot);
}

/*
 * A coroutine's first function may have 0 for its return address, which ends a walk of the stack.  A frame with that in
 * its mirror would be none, and a function that it jumps to would take the first one's stub for its caller: whoever
 * walks the stack would find that stub again and again.
 */
static bool has_caller(uint64_t slot, uint64_t ret)
{
	return ret && (*arch_mirror(slot) || !probe_region_of(ret));
}

/* A call comes in at slot: settle its stack; NULL when the call cannot be traced. *came: FRAME_CAME or 0. */
static struct probe_stack *arrive(struct probe_thread *thread, uint64_t slot, const uint64_t *ret, uint64_t *came)
{
	struct probe_stack *stack = NULL, *before = thread->stack;

	/* A frame that an exit handler waits for keeps its stub: a function that it has tail-called is not seen. */
	if (probe_can_record(thread) && cover(thread, slot) && has_caller(slot, *ret) &&
	    !(probe_context.handled && probe_handled_waits(slot, *ret)))
		stack = probe_stack_settle(thread, slot);
	*came = stack && stack != before && stack->kind & STACK_SIGNAL ? FRAME_CAME : 0;
	if (stack)
		settle_gates(thread, stack, slot, *ret);
	return stack;
}

/*
 * arrive() for a call that the session wants: a call that cannot be traced is counted, but for a function that is left
 * alone as it has no caller.
 */
static struct probe_stack *arrive_wanted(struct probe_thread *thread, uint64_t slot, uint32_t word, const uint64_t *ret,
					 uint64_t *came)
{
	bool has_place =
		probe_can_record(thread) && (!probe_context.profile || probe_profile_has(thread, frames_id(word)));
	struct probe_stack *stack = has_place ? arrive(thread, slot, ret, came) : NULL;

	if (!stack && (!frames_can_read(thread, slot) || has_caller(slot, *ret)))
		probe_count_untraced(0);
	return stack;
}

/* The call is not to be traced after all: undo arrive(). */
static int refuse(struct probe_thread *thread, struct probe_stack *stack, uint64_t came)
{
	if (came)
		probe_stack_leave(thread, stack);
	return 1;
}

/*
 * Does a gate keep a call at slot out?  A frame that keeps the gate closed goes on as the function that it has jumped
 * to: that function is kept out, too, and the frame's own stub opens the gate.
 */
static bool is_shut(uint64_t gate, uint64_t slot, uint64_t ret)
{
	return slot < gate || (slot == gate && frames_is_tail(slot, ret));
}

/* Timing may be switched on while a call is on its way through here, without the planes for it: so look for both. */
static bool is_timed(uint64_t slot)
{
	return probe_context.timed && (slot >> GRANULE_BITS == probe_self()->timed || probe_timed_is_covered(slot));
}

/* Note when the frame was entered; it is not in its chain yet, or goes on under another name. */
static void note_time(uint64_t slot)
{
	if (!is_timed(slot))
		return;
	*arch_within(slot) = 0;
	*arch_entered(slot) = probe_context.profile ? probe_profile_clock(probe_self()) : arch_clock();
}

/* Tell the triggers of the function that the frame, which has its time, was entered. */
static void tell_triggers(struct probe_thread *thread, uint64_t slot, uint32_t word, bool recorded)
{
	const struct probe_call_times call = {frames_id(word), recorded, *arch_entered(slot), 0};

	probe_trigger_entered(thread, &call);
}

/* Tell the triggers of the function that the frame, which has its time, has ended. */
static void tell_left(struct probe_thread *thread, uint64_t slot, uint32_t word)
{
	const struct probe_call_times call = {frames_id(word), !(*arch_link(slot) & FRAME_UNRECORDED),
					      *arch_entered(slot), arch_clock()};

	probe_trigger_left(thread, &call);
}

/* Tell the profile and the triggers that the function was entered. */
static void tell_entered(struct probe_thread *thread, uint64_t slot, uint32_t word)
{
	if (probe_context.profile)
		probe_profile_open(thread, slot, frames_id(word));
	if (is_timed(slot))
		tell_triggers(thread, slot, word, !(*arch_link(slot) & FRAME_UNRECORDED));
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
	uint32_t word = frames_word(thread, slot, arch_stub_word(back));

	if (word)
		tell_left(thread, slot, word);
	if (probe_context.profile && word && !(*arch_link(slot) & FRAME_UNRECORDED))
		probe_profile_close(thread, slot, frames_id(word), *arch_mirror(slot));
	else if (probe_context.profile)
		probe_profile_skip(stack, slot);
}

/*
 * The frame at slot returns by the stub of the function that was reached by a tail call, from now on; the function is
 * recorded, or with FRAME_UNRECORDED it is not.
 */
static void change_stub(struct probe_thread *thread, uint64_t slot, uint32_t word, const uint64_t *ret, uint64_t flag)
{
	uint64_t link = *arch_link(slot);

	if ((link & FRAME_INSTANCES) | (word & WORD_DISPATCHED))
		link = probe_instances_tail(thread, slot, link, word, *ret, *arch_mirror(slot));
	arch_frame_rename(slot, ret);
	if (thread->tree == slot)
		thread->tree_word = 0;
	frames_count_down(thread, link);
	*arch_link(slot) = (link & ~(FRAME_UNRECORDED | FRAME_COUNTED | FRAME_EXACT)) | flag;
}

/*
 * A tail call reached the function: the frame in this slot goes on under another name, and its return address stays
 * where it is.  The frame of a root keeps the root's stub where the function's exit may be the fast one (leaves_fast),
 * which does not see that a tree is over; returns 1 then, as for a function that is not traced.
 */
static int take_over_frame(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t word,
			   const uint64_t *ret, bool leaves_fast)
{
	uint64_t link, unrecorded;
	bool keeps;

	frames_settle(thread, stack, slot, true);
	/* There the fast recorders look for the next tail call's caller. */
	if (!probe_region_has(thread->region, *ret))
		thread->region = probe_region_of(*ret);
	link = *arch_link(slot);
	unrecorded = link & FRAME_UNRECORDED;
	keeps = leaves_fast && thread->tree == slot && !(link & FRAME_INSTANCES) && !unrecorded;
	if (is_timed(slot))
		end_of_tail_caller(thread, stack, slot, *ret);
	if (keeps)
		thread->tree_word = word;
	else
		change_stub(thread, slot, word, ret, unrecorded);
	note_time(slot);
	if (frames_record(thread, unrecorded ? CALLTAP_REC_ENTRY : CALLTAP_REC_TAIL, frames_id(word)))
		*arch_link(slot) &= ~FRAME_UNRECORDED;
	else
		*arch_link(slot) |= FRAME_UNRECORDED;
	tell_entered(thread, slot, word);
	return keeps;
}

/*
 * leaves_fast: the stub's exit may be the fast one.  That one does not look whether the frame has an ENTRY, and readers
 * would take its EXIT for that of the innermost call of the function which they know.  So a call is left alone where
 * its ENTRY is lost, unless a trigger waits for its end.
 */
static int enter(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t word,
		 const uint64_t *ret, uint64_t came, bool leaves_fast)
{
	if (frames_is_tail(slot, *ret))
		return take_over_frame(thread, stack, slot, word, ret, leaves_fast);
	frames_settle(thread, stack, slot, false);
	if (!frames_record(thread, CALLTAP_REC_ENTRY, frames_id(word))) {
		probe_lose_exit(thread);
		if (leaves_fast && !is_timed(slot))
			return refuse(thread, stack, came);
		came |= FRAME_UNRECORDED;
	}
	push_frame(stack, slot, ret, came | probe_instances_enter(thread, slot, word, *ret));
	tell_entered(thread, slot, word);
	return 0;
}

/* Count the frame that was entered in the depth; its exit goes through C, or the count would not come down. */
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

/* leaves_fast: as in enter(). */
static int enter_by_gate(uint64_t slot, uint32_t word, const uint64_t *ret, bool leaves_fast)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive_wanted(thread, slot, word, ret, &came);

	if (!stack)
		return 1;
	if (is_shut(*gate_of(thread), slot, *ret))
		return refuse(thread, stack, came);
	frames_gates_open(thread, slot); /* the frame that kept it closed has gone */
	return enter(thread, stack, slot, word, ret, came, leaves_fast);
}

int probe_graph_entry(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	return enter_by_gate(slot, word, ret, true);
}

int probe_graph_entry_in_c(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	return enter_by_gate(slot, word, ret, false);
}

int probe_graph_entry_full(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	int refused = probe_graph_entry_in_c(slot, word, ret);

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
	if (is_shut(thread->tree ? thread->tree_gate : thread->root_gate, slot, *ret))
		return refuse(thread, stack, came);
	enter(thread, stack, slot, word, ret, came, false); /* enter() may find that the tree is over */
	if (!thread->tree) {
		thread->tree = slot;
		thread->tree_gate = 0;
	}
	count_depth(thread, slot);
	return 0;
}

/* Outside all trees there is nothing to hide but the trees that would begin below. */
static uint64_t *hiding_gate(struct probe_thread *thread)
{
	return probe_context.tree_filter && !thread->tree ? &thread->root_gate : gate_of(thread);
}

/* A frame at slot is being left: bring its stack in line, and tell the instances that have it. */
static void depart(struct probe_thread *thread, uint64_t slot, uint32_t word)
{
	struct probe_stack *stack = probe_stack_settle(thread, slot);

	if (stack)
		frames_settle(thread, stack, slot, true);
	if (*arch_link(slot) & FRAME_INSTANCES)
		probe_instances_exit(thread, slot, *arch_link(slot), frames_id(word));
}

/* A frame without a record; after a tail call it is the caller's, which has ended with its jump. */
static void make_hidden(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t word,
			const uint64_t *ret, uint64_t came)
{
	uint32_t caller;

	if (!frames_is_tail(slot, *ret)) {
		frames_settle(thread, stack, slot, false);
		push_frame(stack, slot, ret, FRAME_UNRECORDED | came | probe_instances_enter(thread, slot, word, *ret));
		return;
	}
	frames_settle(thread, stack, slot, true);
	caller = frames_word(thread, slot, arch_stub_word(*ret));
	if (!(*arch_link(slot) & FRAME_UNRECORDED) && caller)
		probe_record(thread, CALLTAP_REC_EXIT, frames_id(caller), 1, 0);
	if (is_timed(slot))
		end_of_tail_caller(thread, stack, slot, *ret);
	change_stub(thread, slot, word, ret, FRAME_UNRECORDED);
	note_time(slot);
}

static void enter_hidden(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, uint32_t word,
			 const uint64_t *ret, uint64_t came)
{
	make_hidden(thread, stack, slot, word, ret, came);
	if (is_timed(slot))
		tell_triggers(thread, slot, word, false);
}

int probe_graph_entry_notree(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive_wanted(thread, slot, word, ret, &came);

	if (!stack)
		return 1;
	if (is_shut(*hiding_gate(thread), slot, *ret))
		return refuse(thread, stack, came);
	enter_hidden(thread, stack, slot, word, ret, came);
	*hiding_gate(thread) = slot;
	return 0;
}

int probe_graph_entry_hidden(uint64_t slot, uint32_t word, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	uint64_t came;
	struct probe_stack *stack = arrive(thread, slot, ret, &came);

	if (!stack) {
		probe_instances_missed(word);
		return 1;
	}
	frames_gates_open(thread, slot);
	enter_hidden(thread, stack, slot, word, ret, came);
	return 0;
}

/* Forget the frame at slot and give its return address back. */
static void pop_frame(struct probe_thread *thread, uint64_t slot, uint64_t *ret)
{
	uint64_t link = *arch_link(slot);
	struct probe_stack *stack = thread->stack;

	*ret = *arch_mirror(slot);
	if (!*ret)
		probe_note(CALLTAP_NOTE_COPIED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* an unwinder takes the mirror's word, or *ret when that is 0 */
	*arch_mirror(slot) = 0;
	frames_filters_end(thread, slot);
	frames_count_down(thread, link);
	if (probe_stack_top(stack) == slot) {
		probe_stack_set_top(stack, frames_outer(stack, slot, link));
		if (link & FRAME_CAME && probe_can_record(thread))
			probe_stack_leave(thread, stack);
	}
}

/*
 * Do readers know of the frame?  On a signal stack the fast recorders may have copied STACK_TO_C from the stack's top
 * into the link, where it looks like FRAME_UNRECORDED.
 */
static bool has_entry(const struct probe_thread *thread, uint64_t slot)
{
	return !(*arch_link(slot) & FRAME_UNRECORDED) || thread->stack->kind & STACK_SIGNAL;
}

void probe_graph_exit(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	if (probe_can_record(thread)) {
		depart(thread, slot, word);
		if (probe_context.profile)
			probe_profile_close(thread, slot, frames_id(word), *arch_mirror(slot));
		else if (has_entry(thread, slot))
			probe_record(thread, CALLTAP_REC_EXIT, frames_id(word), 1, 0);
	}
	pop_frame(thread, slot, ret);
}

/* Record the exit, or take the entry back if the call was shorter than the threshold. */
static void record_or_take_back(struct probe_thread *thread, uint32_t id)
{
	uint64_t least = probe_context.threshold_ticks;

	if (!least || !probe_take_back(thread->writer, id, arch_clock(), least))
		probe_record(thread, CALLTAP_REC_EXIT, id, 1, 0);
}

/*
 * Does the thread still record entries, though recording has ended?  The fast recorder does not look at `enabled`: it
 * goes on, in the sub-buffer that is open, until the sites are switched off.
 */
static bool goes_on(const struct probe_thread *thread)
{
	return thread->granule != PROBE_NO_GRANULE && thread->writer->ring && probe_context.wiped->alive &&
	       ring_has_room(thread->writer);
}

static void exit_full(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	if (probe_can_record(thread)) {
		depart(thread, slot, word);
		if (probe_context.profile)
			probe_profile_close(thread, slot, frames_id(word), *arch_mirror(slot));
		else if (has_entry(thread, slot))
			record_or_take_back(thread, frames_id(word));
	} else if (goes_on(thread) && !probe_context.profile && has_entry(thread, slot)) {
		record_or_take_back(thread, frames_id(word));
	}
	pop_frame(thread, slot, ret);
}

/* Tell the triggers of the function that the frame has ended, if it has a time. */
static void tell_exit(uint64_t slot, uint32_t word)
{
	struct probe_thread *thread = probe_self();

	if (probe_context.timed && probe_timed_is_covered(slot) && probe_can_record(thread))
		tell_left(thread, slot, word);
}

void probe_trigger_told(uint64_t slot, uint32_t id, uint32_t told, bool exit)
{
	struct probe_thread *thread = probe_self();
	struct probe_call_times call = {id, true, 0, 0};

	if (!told || !probe_context.timed || !probe_timed_is_covered(slot) || !probe_can_record(thread))
		return;
	call.entered = *arch_entered(slot);
	call.left = exit ? arch_clock() : 0;
	probe_trigger_chosen(thread, &call, told);
}

void probe_trigger_exit(uint64_t slot, uint32_t word, uint64_t *ret)
{
	tell_exit(slot, word);
	probe_graph_exit(slot, word, ret);
}

/* Roots' frames leave by this; the function that a root has jumped to may have triggers where the root has none. */
void probe_graph_exit_full(uint64_t slot, uint32_t word, uint64_t *ret)
{
	if (frames_word(probe_self(), slot, word) != word)
		probe_trigger_exit_full(slot, word, ret);
	else
		exit_full(slot, word, ret);
}

void probe_trigger_exit_full(uint64_t slot, uint32_t word, uint64_t *ret)
{
	word = frames_word(probe_self(), slot, word);
	tell_exit(slot, word);
	exit_full(slot, word, ret);
}

void probe_graph_exit_notree(uint64_t slot, uint32_t word, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	tell_exit(slot, word);
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
