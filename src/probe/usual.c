/*
 * The usual calls of functions that further instances want, or that tell values, in as few steps as C takes
 * (instances.h).
 *
 * Called by the dispatcher on the program's thread, for calls that no handler waits for.  Context: probe.  Most calls
 * are of further instances without filters or limits, on the stack that the thread was on before; the session may
 * record the function, too.  All else is left to instances.c and graph.c, by calls in place of a return: so the usual
 * way needs no frame of its own.
 */
#include <offsets.h>
#include <probe/graph.h>
#include <probe/handlers.h>
#include <probe/instances.h>
#include <probe/program.h>
#include <probe/trigger.h>

#define COLD __attribute__((noinline, cold))
/* Twice in the text: with the session's record, and without. */
#define TWICE static inline __attribute__((always_inline))
#define OWN   CALLTAP_HANDLED_RECORD

/* Note who waits for the frame's end: the session, or instances that the link names. */
static inline void note_who(uint64_t slot, uint32_t own)
{
	*arch_who(slot) = probe_instances_who(*arch_link(slot)) | own;
}

/* The long way, which settles stacks and filters. */
static COLD int enter_anew(uint64_t slot, uint32_t word, uint32_t own, const uint64_t *ret)
{
	arch_string_forward();
	if (own && probe_graph_entry_in_c(slot, word, ret))
		own = 0;
	if (!own && probe_graph_entry_hidden(slot, word, ret))
		return 1;
	note_who(slot, own | probe_trigger_who(frames_id(word)));
	return 0;
}

/* Is the call one that the profile or a trigger is told of?  The long way does that. */
static inline bool is_told(uint32_t id)
{
	return __builtin_expect(probe_context.timed, 0) && (probe_context.profile || probe_trigger_waits(id));
}

/* Does the frame get its time noted?  Where its planes are not known to be there, the long way sees to them. */
static inline bool is_timed(const struct probe_thread *thread, uint64_t slot)
{
	return probe_context.timed && thread->timed == slot >> GRANULE_BITS;
}

/* Must the long way take the call?  Another stack, frames that are gone, or the session's filters. */
static inline bool is_unusual(const struct probe_thread *thread, uint64_t slot, uint32_t id)
{
	const struct probe_stack *stack = thread->stack;
	uint64_t gate = probe_context.tree_filter ? thread->tree_gate : thread->gate;

	return slot >= stack->top || slot < stack->low || slot <= gate || slot == thread->tree_gate ||
	       slot == thread->root_gate || !probe_context.enabled || is_told(id) ||
	       (probe_context.timed && thread->timed != slot >> GRANULE_BITS);
}

/* The call's frame, whose records are written. */
static inline void push(struct probe_stack *stack, uint64_t slot, uint64_t flags, uint32_t own, uint64_t now,
			const uint64_t *ret)
{
	*arch_link(slot) = stack->top | flags;
	if (is_timed(probe_self(), slot)) {
		*arch_within(slot) = 0;
		*arch_entered(slot) = now;
	}
	note_who(slot, own);
	arch_frame_open(slot, ret);
	probe_stack_set_top(stack, slot);
}

/* A call that is usual for the session, for the instances with these sets, by calls; flags: of its link so far. */
static COLD int enter_rest(uint64_t slot, uint32_t id, uint32_t sets, uint64_t flags, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	arch_string_forward();
	flags |= probe_instances_enter_sets(thread, slot, sets, id, *ret);
	if (flags == FRAME_UNRECORDED)
		return 1; /* nobody waits for its end */
	push(thread->stack, slot, flags, flags & FRAME_UNRECORDED ? 0 : OWN, arch_clock(), ret);
	return 0;
}

/* The session's ring has no room as it is. */
static COLD int enter_by_calls(uint64_t slot, uint32_t id, uint32_t sets, const uint64_t *ret)
{
	arch_string_forward();
	probe_record(probe_self(), CALLTAP_REC_ENTRY, id, 1, 0);
	return enter_rest(slot, id, sets, 0, ret);
}

/* The place in the rings of a plain instance that the thread holds already; NULL = anything else. */
static inline struct probe_share *plain_share(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = &thread->further[set - 1];
	/* Acquire: pairs with agent_instance_take(). */
	uint32_t on = __atomic_load_n(&probe_context.wiped->plain[set], __ATOMIC_ACQUIRE);

	return on && share->generation == on ? share : NULL;
}

/* Record the entry for the set's instance, which is plain.  False: nothing was done. */
static inline bool put_entry(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t now)
{
	struct probe_share *share;
	bool done;

	probe_share_begin(thread);
	share = plain_share(thread, set);
	done = share && probe_put_usual(share->writer, CALLTAP_REC_ENTRY, id, now);
	if (done)
		share->depth++;
	probe_share_end(thread);
	return done;
}

TWICE int enter(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret, uint32_t own)
{
	struct probe_thread *thread = probe_self();
	uint32_t left = (uint32_t)(row >> CALLTAP_HANDLED_INSTANCES_AT);
	uint64_t now, flags = own ? 0 : FRAME_UNRECORDED;

	if (__builtin_expect(is_unusual(thread, slot, id), 0))
		return enter_anew(slot, probe_instances_word(id, (uint32_t)row), own, ret);
	now = arch_clock();
	if (own && !probe_put_usual(thread->writer, CALLTAP_REC_ENTRY, id, now))
		return enter_by_calls(slot, id, left, ret);
	for (; left; left &= left - 1) {
		unsigned set = 1 + arch_first_bit(left);

		if (__builtin_expect(!put_entry(thread, set, id, now), 0))
			return enter_rest(slot, id, left, flags, ret);
		flags |= FRAME_OF(set);
	}
	push(thread->stack, slot, flags, own, now, ret);
	return 0;
}

int probe_instances_entered(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret)
{
	return enter(slot, id, row, ret, 0);
}

int probe_instances_entered_both(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret)
{
	return enter(slot, id, row, ret, OWN);
}

/* The frame is over: give its return address back. */
static inline void pop(struct probe_stack *stack, uint64_t slot, uint64_t link, uint64_t *ret)
{
	*ret = *arch_mirror(slot);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* an unwinder takes the mirror's word, or this when that is 0 */
	*arch_mirror(slot) = 0;
	probe_stack_set_top(stack, frames_outer(stack, slot, link));
}

/* An exit of the instances that this link names, by calls. */
static COLD void leave_rest(uint64_t slot, uint32_t id, uint64_t link, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	arch_string_forward();
	if (link & FRAME_INSTANCES && probe_can_record(thread))
		probe_instances_exit(thread, slot, link, id);
	pop(thread->stack, slot, link, ret);
}

/* No ring, or one without room as it is: a forked child, the end of the session, a full sub-buffer. */
static COLD void leave_by_calls(uint64_t slot, uint32_t id, uint32_t own, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	arch_string_forward();
	if (own && probe_can_record(thread))
		probe_record(thread, CALLTAP_REC_EXIT, id, 1, 0);
	leave_rest(slot, id, *arch_link(slot), ret);
}

static COLD void leave_told(uint64_t slot, uint32_t id, uint32_t own, uint64_t *ret)
{
	arch_string_forward();
	if (own)
		probe_trigger_exit(slot, id, ret);
	else
		probe_graph_exit_notree(slot, id, ret);
}

/* Record the exit for the set's instance, which is plain.  False: nothing was done. */
static inline bool put_exit(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t now)
{
	struct probe_share *share;
	bool done;

	probe_share_begin(thread);
	share = plain_share(thread, set);
	/* A filter that was taken away may have a frame yet; a frame of an earlier instance finds none open. */
	done = share && share->depth && !(share->gate | share->tree) &&
	       probe_put_usual(share->writer, CALLTAP_REC_EXIT, id, now);
	if (done)
		share->depth--;
	probe_share_end(thread);
	return done;
}

TWICE void leave(uint64_t slot, uint32_t id, uint64_t *ret, uint32_t own)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack = thread->stack;
	uint64_t link = *arch_link(slot), now;

	if (__builtin_expect(is_told(id), 0)) {
		leave_told(slot, id, own, ret);
		return;
	}
	now = arch_clock();
	if (__builtin_expect(!probe_context.enabled || !probe_context.wiped->alive || !thread->writer->ring, 0) ||
	    (own && !probe_put_usual(thread->writer, CALLTAP_REC_EXIT, id, now))) {
		leave_by_calls(slot, id, own, ret);
		return;
	}
	for (; link & FRAME_INSTANCES; link &= ~FRAME_OF(1 + arch_first_bit(probe_instances_sets(link)))) {
		if (__builtin_expect(!put_exit(thread, 1 + arch_first_bit(probe_instances_sets(link)), id, now), 0)) {
			leave_rest(slot, id, link, ret);
			return;
		}
	}
	pop(stack, slot, link, ret);
}

void probe_instances_left(uint64_t slot, uint32_t id, uint64_t *ret)
{
	leave(slot, id, ret, 0);
}

void probe_instances_left_both(uint64_t slot, uint32_t id, uint64_t *ret)
{
	leave(slot, id, ret, OWN);
}

#define VALUES CALLTAP_HANDLED_VALUES

/* The frame of a call that is not recorded, nor is what it calls.  False: it is hidden by another one already. */
static bool hide(uint64_t slot, uint32_t id, const uint64_t *ret)
{
	if (probe_graph_entry_notree(slot, id, ret))
		return false;
	note_who(slot, CALLTAP_HANDLED_NOTREE | probe_trigger_who(id));
	return true;
}

/* The long way for a call whose program has run. */
static COLD int enter_values_anew(uint64_t slot, uint32_t id, const uint64_t *ret, const struct probe_run *run,
				  enum calltap_verdict verdict)
{
	uint32_t own = OWN | VALUES;

	arch_string_forward();
	if (verdict == CALLTAP_VERDICT_HIDE && hide(slot, id, ret))
		return 0;
	if (verdict != CALLTAP_VERDICT_RECORD || probe_graph_entry_in_c(slot, id, ret))
		own = 0;
	if (!own && probe_graph_entry_hidden(slot, id, ret))
		return 1;
	note_who(slot, own | probe_trigger_who(id));
	if (own && !(*arch_link(slot) & FRAME_UNRECORDED))
		probe_program_record(probe_self(), run);
	return 0;
}

int probe_values_entered(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret,
			 const struct calltap_registers *saved)
{
	const struct probe_call_state call = {saved, slot, *ret, id, false};
	struct probe_thread *thread = probe_self();
	enum calltap_verdict verdict;
	struct probe_run run;
	bool usual;
	uint64_t now;

	(void)row;
	arch_string_forward();
	verdict = probe_program_run(&run, &call);
	usual = !is_unusual(thread, slot, id);
	/* Nobody waits for its return: it goes on as a function that is not traced. */
	if (verdict == CALLTAP_VERDICT_LEAVE_OUT && usual)
		return 1;
	now = arch_clock();
	if (__builtin_expect(verdict != CALLTAP_VERDICT_RECORD || !usual, 0) ||
	    !(run.type ? probe_program_put_entry(thread, &run, id, now)
		       : probe_put_usual(thread->writer, CALLTAP_REC_ENTRY, id, now)))
		return enter_values_anew(slot, id, ret, &run, verdict);
	/* A return without a program comes as that of a function without values. */
	push(thread->stack, slot, 0, probe_program_waits(id) ? OWN | VALUES : OWN, now, ret);
	return 0;
}

/* The values come first, with the time of the return; what fetching them takes is not the call's. */
void probe_values_left(uint64_t slot, uint32_t id, uint64_t *ret, const struct calltap_registers *saved)
{
	const struct probe_call_state call = {saved, slot, *arch_mirror(slot), id, true};
	struct probe_thread *thread = probe_self();
	struct probe_run run;
	uint64_t now = arch_clock();

	arch_string_forward();
	if (__builtin_expect(!probe_context.enabled || !probe_context.wiped->alive || !thread->writer->ring, 0)) {
		leave_by_calls(slot, id, OWN, ret);
		return;
	}
	(void)probe_program_run(&run, &call);
	if (run.type && !probe_program_put(thread, &run, now))
		probe_program_record(thread, &run);
	if (__builtin_expect(is_told(id), 0))
		leave_told(slot, id, OWN, ret);
	else if (!probe_put_usual(thread->writer, CALLTAP_REC_EXIT, id, now))
		leave_by_calls(slot, id, OWN, ret);
	else
		pop(thread->stack, slot, *arch_link(slot), ret);
}
