/*
 * The usual calls of functions that further instances want, in as few steps as C takes
 * (instances.h).
 *
 * Called by the dispatcher on the program's thread, for calls that no handler waits for.  Context: probe.  Most calls
 * are of further instances without filters or limits, on the stack that the thread was on before; the session may
 * record the function, too.  All else is left to instances.c and graph.c, by calls in place of a return: so the usual
 * way needs no frame of its own.
 */
#include <offsets.h>
#include <probe/graph.h>
#include <probe/halves.h>
#include <probe/handlers.h>
#include <probe/instances.h>
#include <probe/trigger.h>
#include <probe/usual.h>

/* Twice in the text: with the session's record, and without. */
#define TWICE static inline __attribute__((always_inline))

/* The long way, which settles stacks and filters. */
static COLD int enter_anew(uint64_t slot, uint32_t word, uint32_t own, const uint64_t *ret)
{
	arch_string_forward();
	if (own && probe_graph_entry_in_c(slot, word, ret))
		own = 0;
	if (!own && probe_graph_entry_hidden(slot, word, ret))
		return 1;
	usual_note_who(slot, *arch_link(slot), own | probe_trigger_who(frames_id(word)));
	return 0;
}

/* A call that is usual for the session, for the instances with these sets, by calls; flags: of its link so far. */
static COLD int enter_rest(uint64_t slot, uint32_t id, uint32_t sets, uint64_t flags, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	arch_string_forward();
	flags |= probe_instances_enter_sets(thread, slot, sets, id, *ret);
	if ((flags & ~FRAME_EXACT) == FRAME_UNRECORDED)
		return 1; /* nobody waits for its end */
	usual_push(thread->stack, slot, flags, flags & FRAME_UNRECORDED ? 0 : OWN, arch_clock(), ret,
		   usual_is_timed() && thread->timed == slot >> GRANULE_BITS);
	return 0;
}

/* The session's ring has no room as it is. */
static COLD int enter_by_calls(uint64_t slot, uint32_t id, uint32_t sets, const uint64_t *ret)
{
	bool recorded;

	arch_string_forward();
	recorded = frames_record(probe_self(), CALLTAP_REC_ENTRY, id);
	if (!recorded)
		probe_lose_exit(probe_self());
	return enter_rest(slot, id, sets, recorded ? 0 : FRAME_UNRECORDED, ret);
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

/* As plain_share(), of an instance that may have brief records. */
static inline struct probe_share *brief_share(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = &thread->further[set - 1];
	uint32_t on = __atomic_load_n(&probe_context.wiped->brief[set], __ATOMIC_ACQUIRE); /* as in plain_share() */

	return on && share->generation == on ? share : NULL;
}

/* Put a brief entry.  False: it is to get its time. */
static inline bool put_brief_entry(struct probe_thread *thread, unsigned set, uint32_t id,
				   const struct calltap_times *times)
{
	struct probe_share *share;
	bool done;

	probe_share_begin(thread);
	share = brief_share(thread, set);
	done = share && halves_put(share->writer, CALLTAP_REC_BRIEF_ENTRY, id, &share->tick, times);
	if (done)
		share->depth++;
	probe_share_end(thread);
	return done;
}

/*
 * The sets, of those that want the call, for which it is brief.  *flags: FRAME_EXACT if the call is brief for some and
 * is to have its times all the same, so that its exit has one, too.
 */
static inline uint32_t choose_brief(struct probe_thread *thread, uint32_t sets, uint32_t id,
				    const struct calltap_times *times, uint64_t *flags)
{
	uint32_t brief = sets & halves_sets(times, id);

	if (__builtin_expect(!brief, 1) || !halves_sampled(thread, times))
		return brief;
	*flags |= FRAME_EXACT;
	return 0;
}

TWICE int enter(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret, uint32_t own)
{
	struct probe_thread *thread = probe_self();
	const struct calltap_times *times = halves_times();
	uint32_t left = (uint32_t)(row >> CALLTAP_HANDLED_INSTANCES_AT), brief;
	uint64_t now = 0, flags = own ? 0 : FRAME_UNRECORDED;
	bool timed = usual_is_timed();

	if (__builtin_expect(usual_is_unusual(thread, slot, id, timed), 0))
		return enter_anew(slot, probe_instances_word(id, (uint32_t)row), own, ret);
	brief = choose_brief(thread, left, id, times, &flags);
	if (own || timed || left & ~brief)
		now = arch_clock();
	if (own && !probe_put_usual(thread->writer, CALLTAP_REC_ENTRY, id, now))
		return enter_by_calls(slot, id, left, ret);
	for (; left; left &= left - 1) {
		unsigned set = 1 + arch_first_bit(left);

		if (brief >> (set - 1) & 1 ? !put_brief_entry(thread, set, id, times)
					   : __builtin_expect(!put_entry(thread, set, id, now), 0))
			return enter_rest(slot, id, left, brief ? flags | FRAME_EXACT : flags, ret);
		flags |= FRAME_OF(set);
	}
	usual_push(thread->stack, slot, flags, own, now, ret, timed);
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

/* An exit of the instances that this link names, by calls. */
static COLD void leave_rest(uint64_t slot, uint32_t id, uint64_t link, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	arch_string_forward();
	if (link & FRAME_INSTANCES && probe_can_record(thread))
		probe_instances_exit(thread, slot, link, id);
	usual_pop(thread->stack, slot, link, ret);
}

/* No ring, or one without room as it is: a forked child, the end of the session, a full sub-buffer. */
COLD void usual_leave_by_calls(uint64_t slot, uint32_t id, uint32_t own, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();

	arch_string_forward();
	if (own && probe_can_record(thread))
		probe_record(thread, CALLTAP_REC_EXIT, id, 1, 0);
	leave_rest(slot, id, *arch_link(slot), ret);
}

COLD void usual_leave_told(uint64_t slot, uint32_t id, uint32_t own, uint64_t *ret)
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

/* Put a brief exit.  False: it is to get its time, or is none of the instance's. */
static inline bool put_brief_exit(struct probe_thread *thread, unsigned set, uint32_t id,
				  const struct calltap_times *times)
{
	struct probe_share *share;
	bool done;

	probe_share_begin(thread);
	share = brief_share(thread, set);
	done = share && share->depth && !(share->gate | share->tree) &&
	       halves_put(share->writer, CALLTAP_REC_BRIEF_EXIT, id, &share->tick, times);
	if (done)
		share->depth--;
	probe_share_end(thread);
	return done;
}

TWICE void leave(uint64_t slot, uint32_t id, uint64_t *ret, uint32_t own)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack = thread->stack;
	uint64_t link = *arch_link(slot), now = 0;
	const struct calltap_times *times = halves_times();
	uint32_t sets = probe_instances_sets(link), brief = link & FRAME_EXACT ? 0 : sets & halves_sets(times, id);

	if (__builtin_expect(usual_is_told(id), 0)) {
		usual_leave_told(slot, id, own, ret);
		return;
	}
	if (own || sets & ~brief)
		now = arch_clock();
	if (__builtin_expect(!probe_context.enabled || !probe_context.wiped->alive || !thread->writer->ring, 0) ||
	    (own && !probe_put_usual(thread->writer, CALLTAP_REC_EXIT, id, now))) {
		usual_leave_by_calls(slot, id, own, ret);
		return;
	}
	for (; link & FRAME_INSTANCES; link &= ~FRAME_OF(1 + arch_first_bit(probe_instances_sets(link)))) {
		unsigned set = 1 + arch_first_bit(probe_instances_sets(link));

		if (brief >> (set - 1) & 1 ? !put_brief_exit(thread, set, id, times)
					   : __builtin_expect(!put_exit(thread, set, id, now), 0)) {
			leave_rest(slot, id, link, ret);
			return;
		}
	}
	usual_pop(stack, slot, link, ret);
}

void probe_instances_left(uint64_t slot, uint32_t id, uint64_t *ret)
{
	leave(slot, id, ret, 0);
}

void probe_instances_left_both(uint64_t slot, uint32_t id, uint64_t *ret)
{
	leave(slot, id, ret, OWN);
}
