/*
 * What the two files for usual calls share: those of further instances (usual.c), and those of functions that tell
 * values (valued.c).
 *
 * Context: probe.
 */
#ifndef PROBE_USUAL_H
#define PROBE_USUAL_H

#include <offsets.h>
#include <probe/graph.h>
#include <probe/instances.h>
#include <probe/trigger.h>

#define COLD __attribute__((noinline, cold))
#define OWN  CALLTAP_HANDLED_RECORD

/* Note who waits for the end of the frame with that link: the session, or instances that the link names. */
static inline void usual_note_who(uint64_t slot, uint64_t link, uint32_t own)
{
	*arch_who(slot) = probe_instances_who(link) | own;
}

/* Is the call one that the profile or a trigger is told of?  The long way does that. */
static inline bool usual_is_told(uint32_t id)
{
	return __builtin_expect(probe_context.timed, 0) && (probe_context.profile || probe_trigger_waits(id));
}

/* Have frames the planes of timed ones?  Looked at once for each call. */
static inline bool usual_is_timed(void)
{
	return __atomic_load_n(&probe_context.timed, __ATOMIC_RELAXED);
}

/* Must the long way take the call?  Another stack, frames that are gone, or the session's filters. */
static inline bool usual_is_unusual(const struct probe_thread *thread, uint64_t slot, uint32_t id, bool timed)
{
	const struct probe_stack *stack = thread->stack;
	uint64_t gate = probe_context.tree_filter ? thread->tree_gate : thread->gate;

	return slot >= stack->top || slot < stack->low || slot <= gate || slot == thread->tree_gate ||
	       slot == thread->root_gate || !probe_context.enabled ||
	       (timed && (thread->timed != slot >> GRANULE_BITS || probe_context.profile || probe_trigger_waits(id)));
}

/* The call's frame, whose records are written. */
static inline void usual_push(struct probe_stack *stack, uint64_t slot, uint64_t flags, uint32_t own, uint64_t now,
			      const uint64_t *ret, bool timed)
{
	*arch_link(slot) = stack->top | flags;
	if (timed) {
		*arch_within(slot) = 0;
		*arch_entered(slot) = now;
	}
	usual_note_who(slot, flags, own);
	arch_frame_open(slot, ret);
	probe_stack_set_top(stack, slot);
}

/* The frame is over: give its return address back. */
static inline void usual_pop(struct probe_stack *stack, uint64_t slot, uint64_t link, uint64_t *ret)
{
	*ret = *arch_mirror(slot);
	if (!*ret)
		probe_note(CALLTAP_NOTE_COPIED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* an unwinder takes the mirror's word, or this when that is 0 */
	*arch_mirror(slot) = 0;
	probe_stack_set_top(stack, frames_outer(stack, slot, link));
}

/* An exit by calls: no ring, or one without room as it is.  own: OWN, or 0 where the session does not record it. */
void usual_leave_by_calls(uint64_t slot, uint32_t id, uint32_t own, uint64_t *ret);
/* An exit that the profile or a trigger is told of. */
void usual_leave_told(uint64_t slot, uint32_t id, uint32_t own, uint64_t *ret);

#endif
