/*
 * Frames that end without returning, told by unwinders, by longjmp, and by a new context on an old stack (unwound.h).
 *
 * Called on the program's thread by unwinders and by the functions that the agent room puts in front of libc's.
 * Context: probe. doc/design/stacks.md.
 */
#include <probe/frames.h>
#include <probe/graph.h>
#include <probe/handlers.h>
#include <probe/trigger.h>
#include <probe/unwound.h>

/* _Unwind_Action and _Unwind_Reason_Code of the Itanium C++ ABI's base, level I. */
#define UNWIND_CLEANUP	2
#define UNWIND_FORCED	8
#define UNWIND_CONTINUE 8

#define CONTEXT_WORDS 20

void *arch_next_makecontext, *arch_next_swapcontext;

/* How a ucontext_t begins on every Linux CPU. */
struct context_head {
	uint64_t flags, link;
	uint64_t sp, stack_flags, size; /* uc_stack */
};

/*
 * Tell the triggers of the function at the stack's top: an unwinder passes its frame by for an exception, and the
 * frame's memory is as it was.
 */
static void tell_threw(struct probe_thread *thread, const struct probe_stack *stack)
{
	uint64_t top = probe_stack_top(stack), back;
	uint32_t word = 0;

	if (top < stack->end && frames_back(top, &back) && probe_region_of(back))
		word = frames_word(thread, top, arch_stub_word(back));
	if (word && probe_timed_is_covered(top)) {
		const struct probe_call_times call = {frames_id(word), !(*arch_link(top) & FRAME_UNRECORDED),
						      *arch_entered(top), arch_clock()};

		probe_trigger_threw(thread, &call);
	}
}

/*
 * Does an unwinder end a leaf's frame, of which no chain knows?  libgcc's struct _Unwind_Context begins with a word for
 * each register; the frame's pc is among the words behind these.  The struct is longer than what is looked at.
 */
static bool is_leaf(const void *context)
{
	const uint64_t *words = context;

	for (unsigned i = 0; i < CONTEXT_WORDS; i++)
		if (arch_is_leaf_back(words[i]) && probe_region_of(words[i]))
			return true;
	return false;
}

int probe_frame_unwound(int version, int actions, uint64_t exception_class, void *exception, void *context)
{
	struct probe_thread *thread = probe_self();
	uint64_t here = (uint64_t)__builtin_frame_address(0);
	struct probe_stack *stack;

	(void)version;
	(void)exception_class;
	(void)exception;
	if (!(actions & UNWIND_CLEANUP) || is_leaf(context) || !probe_can_record(thread))
		return UNWIND_CONTINUE;
	/* Outwards past the end of a signal stack: the frame is one of those that the signal interrupted. */
	stack = thread->stack;
	while (probe_stack_is_empty(stack) && stack->kind & STACK_SIGNAL && stack->from != &probe_stack_none)
		stack = stack->from;
	if (stack != thread->stack)
		probe_stack_switch(thread, stack);
	if (actions & UNWIND_FORCED)
		probe_stack_ends(stack);
	if (here > stack->lowest && here < stack->end)
		frames_settle(thread, stack, here, false);
	probe_handled_jump(probe_stack_top(stack));
	if (probe_context.timed && !(actions & UNWIND_FORCED))
		tell_threw(thread, stack);
	frames_drop(thread, stack, probe_stack_top(stack) + 1);
	return UNWIND_CONTINUE;
}

/*
 * Drop the frames inside `end` before a jump.  A signal handler that jumps may have interrupted a recorder between its
 * record and the chain's change: so the record names the frame that stays.  It may have interrupted a leaf, too, of
 * which the chain does not know: where there may be leaves, each jump is told, by ID_MAX where no frame can be named.
 */
static void drop_for_jump(struct probe_thread *thread, struct probe_stack *stack, uint64_t end)
{
	uint32_t gone = frames_take_off(thread, stack, end), word = 0;
	bool tells = probe_times && !probe_context.tells_open;
	uint64_t top = probe_stack_top(stack), back;

	if (stack->kind & STACK_THREAD && top < stack->end && frames_back(top, &back) && probe_region_of(back))
		word = frames_word(thread, top, arch_stub_word(back));
	if (word || tells)
		probe_record(thread, CALLTAP_REC_LANDING, word ? frames_id(word) : CALLTAP_RECORD_ID_MAX, 1, 0);
	if (gone || word || tells)
		probe_record(thread, CALLTAP_REC_UNWIND, gone, 1, 0);
}

void probe_jump(uint64_t sp)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack, *target;

	probe_handled_jump(sp);
	if (thread->stack == &probe_stack_none || !probe_can_record(thread))
		return;
	stack = probe_stack_find(thread, (uint64_t)__builtin_frame_address(0));
	target = probe_stack_find(thread, sp);
	if (!stack || !target)
		return;
	/* On a jump from one stack to another, a coroutine stays where it is; a signal's handler is over. */
	if (stack != target && !(stack->kind & STACK_SIGNAL))
		return;
	if (stack != thread->stack)
		probe_stack_switch(thread, stack);
	if (stack != target) {
		frames_drop(thread, stack, stack->end);
		probe_stack_switch(thread, target);
	}
	drop_for_jump(thread, target, sp);
}

/* The program has given up what ran on the stack. */
static void give_up(struct probe_thread *thread, struct probe_stack *stack)
{
	struct probe_stack *here = thread->stack;

	if (!probe_stack_is_empty(stack) && here != &probe_stack_none && probe_can_record(thread)) {
		probe_stack_switch(thread, stack);
		frames_drop(thread, stack, stack->end);
		if (here != stack)
			probe_stack_switch(thread, here);
	}
	probe_stack_forget(stack);
}

void probe_stack_made(uint64_t lo, uint64_t hi, bool is_signal)
{
	struct probe_thread *thread = probe_self();
	uint32_t kind = is_signal ? STACK_SIGNAL : 0;
	struct probe_stack *old;

	hi &= ~FRAME_FLAGS; /* memory may end anywhere; links carry flags here, and the outermost one is hi */
	if (hi <= lo || hi >> ARCH_ADDRESS_BITS)
		return;
	if (is_signal)
		probe_stack_disable(thread); /* the signal stack that the thread had */
	while ((old = probe_stack_overlapping(lo, hi, kind)))
		give_up(thread, old);
	probe_stack_announce(thread, lo, hi, kind);
}

uint64_t probe_context_left(uint64_t slot, uint64_t back)
{
	uint64_t ret = back;

	if (!probe_region_of(back) || !probe_mirror_is_covered(slot) || !*arch_mirror(slot))
		return back;
	if (*arch_link(slot) & FRAME_UNRECORDED)
		probe_graph_exit_notree(slot, arch_stub_word(back), &ret);
	else
		probe_trigger_exit_full(slot, arch_stub_word(back), &ret);
	return ret;
}

void probe_context_made(const void *context)
{
	const struct context_head *made = context;

	if (probe_context.enabled)
		probe_stack_made(made->sp, made->sp + made->size, false);
}
