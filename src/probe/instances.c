/*
 * Records of further instances (instances.h).
 *
 * Called on the program's thread, off the fast path.  Context: probe.  A
 * signal handler between a record and the frame's link leaves its own frames
 * complete; the one that it came into may be missing an UNWIND when the
 * handler jumps away, which readers take as a frame that its caller closes.
 */
#include <offsets.h>
#include <probe/graph.h>
#include <probe/handlers.h>
#include <probe/instances.h>

_Static_assert(FRAME_INSTANCES_AT + PROBE_SETS - 1 < 64, "a link's bits");
_Static_assert(CALLTAP_INSTANCES == PROBE_SETS, "ABI");

/* On the way of each call that an instance records: a call costs more there than code. */
#define HOT static inline __attribute__((always_inline))

/* The instance that has the set now; 0 = none.  Acquire: pairs with agent_instance_take(). */
static inline uint32_t on_of(unsigned set)
{
	return __atomic_load_n(&probe_set_at(set)->on, __ATOMIC_ACQUIRE);
}

/* Bit N - 1: set N has an ENTRY of the frame, or had it for an instance that has ended. */
static inline uint32_t sets_of(uint64_t link)
{
	return (uint32_t)((link & FRAME_INSTANCES) >> FRAME_INSTANCES_AT);
}

/* The sets whose instances want the call, as sets_of(). */
static inline uint32_t sets_for(uint32_t word)
{
	const uint32_t dispatched = WORD_DISPATCHED | WORD_INSTANCES;

	return (word & dispatched) == dispatched
		       ? (uint32_t)(probe_handled_row(frames_id(word)) >> CALLTAP_HANDLED_INSTANCES_AT)
		       : 0;
}

/* The thread's place in the rings of the instance that has the set now; NULL = it gets none. */
HOT struct probe_share *share_in(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = &thread->further[set - 1];
	uint32_t on = on_of(set);

	if (on && share->generation == on && share->writer->ring)
		return share;
	return probe_set_attach(thread, set) ? share : NULL;
}

/* The thread's place for a call that begins, as share_in(); a call that gets none is counted. */
HOT struct probe_share *share_for(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = share_in(thread, set);

	if (!share && on_of(set))
		probe_count_untraced(set);
	return share;
}

/*
 * The thread's place for the end of a frame whose link names the set.  NULL: the frame was entered for an instance that
 * had the set before.  Such a frame lies outside of all that the thread has entered for the one that has it now, so it
 * ends when none of those is open.
 */
HOT struct probe_share *share_at_end(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = &thread->further[set - 1];
	uint32_t on = on_of(set);

	if (!on || share->generation != on || !share->depth)
		return NULL;
	return share->writer->ring ? share : share_in(thread, set);
}

/* Fast case: same clock half, room in the open sub-buffer.  False: nothing was written; call probe_set_record(). */
HOT bool put_usual(struct ring_writer *writer, enum calltap_record_kind kind, uint32_t id)
{
	uint64_t now = arch_clock(), *slot = writer->time_hi == now >> 32 ? ring_take(writer, 1) : NULL;

	if (slot)
		ring_put(slot, calltap_record_make(kind, id, (uint32_t)now));
	return slot != NULL;
}

HOT bool put(struct probe_thread *thread, unsigned set, const struct probe_share *share, enum calltap_record_kind kind,
	     uint32_t id)
{
	return put_usual(share->writer, kind, id) || probe_set_record(thread, set, kind, id, 1, 0);
}

/* The bit that the frame's link is to have of the set, or 0. */
HOT uint64_t put_entry(struct probe_thread *thread, unsigned set, uint32_t id)
{
	struct probe_share *share = share_for(thread, set);
	uint32_t most = __atomic_load_n(&probe_set_at(set)->depth_max, __ATOMIC_RELAXED);

	if (!share || (most && share->depth >= most) || !put(thread, set, share, CALLTAP_REC_ENTRY, id))
		return 0;
	share->depth++;
	return FRAME_OF(set);
}

HOT void put_exit(struct probe_thread *thread, unsigned set, uint32_t id)
{
	struct probe_share *share = share_at_end(thread, set);
	uint64_t ticks = __atomic_load_n(&probe_set_at(set)->threshold_ticks, __ATOMIC_RELAXED);

	if (!share)
		return;
	share->depth--;
	if (!ticks || !probe_take_back(share->writer, id, arch_clock(), ticks))
		put(thread, set, share, CALLTAP_REC_EXIT, id);
}

/* The frame goes on under another name; one that is of an instance before is the call's beginning. */
static uint64_t put_tail(struct probe_thread *thread, unsigned set, uint32_t id)
{
	struct probe_share *share = share_at_end(thread, set);

	if (!share)
		return put_entry(thread, set, id);
	if (put(thread, set, share, CALLTAP_REC_TAIL, id))
		return FRAME_OF(set);
	share->depth--;
	return 0;
}

/* Has the set the tracer `function`? */
static bool is_of_calls(unsigned set)
{
	return probe_set_at(set)->calls;
}

static void put_call(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t caller)
{
	if (share_for(thread, set))
		probe_set_record(thread, set, CALLTAP_REC_CALL, id, 2, caller);
}

/* What the frame's link is to have of these sets. */
HOT uint64_t enter_sets(struct probe_thread *thread, uint32_t sets, uint32_t id, uint64_t caller)
{
	uint64_t flags = 0;

	probe_share_begin(thread);
	for (uint32_t left = sets, set = 1; left; left >>= 1, set++) {
		if (!(left & 1))
			continue;
		if (is_of_calls(set))
			put_call(thread, set, id, caller);
		else
			flags |= put_entry(thread, set, id);
	}
	probe_share_end(thread);
	return flags;
}

uint64_t probe_instances_enter(struct probe_thread *thread, uint32_t word, uint64_t caller)
{
	uint32_t sets = sets_for(word);

	return sets ? enter_sets(thread, sets, frames_id(word), caller) : 0;
}

uint64_t probe_instances_tail(struct probe_thread *thread, uint64_t link, uint32_t word, uint64_t back, uint64_t caller)
{
	uint32_t id = frames_id(word), had = sets_of(link), sets = sets_for(word);
	uint64_t flags = 0;

	probe_share_begin(thread);
	for (uint32_t left = had | sets, set = 1; left; left >>= 1, set++) {
		bool begun = link & FRAME_OF(set), wants = sets >> (set - 1) & 1;

		if (wants && is_of_calls(set))
			put_call(thread, set, id, caller);
		else if (begun && !wants)
			put_exit(thread, set, frames_id(arch_stub_word(back)));
		else if (wants)
			flags |= begun ? put_tail(thread, set, id) : put_entry(thread, set, id);
	}
	probe_share_end(thread);
	return (link & ~FRAME_INSTANCES) | flags;
}

void probe_instances_call(struct probe_thread *thread, uint32_t word, uint64_t caller)
{
	probe_share_begin(thread);
	for (uint32_t left = sets_for(word), set = 1; left; left >>= 1, set++)
		if (left & 1 && is_of_calls(set))
			put_call(thread, set, frames_id(word), caller);
	probe_share_end(thread);
}

void probe_instances_missed(uint32_t word)
{
	for (uint32_t left = sets_for(word), set = 1; left; left >>= 1, set++)
		if (left & 1 && on_of(set))
			probe_count_untraced(set);
}

HOT void leave_sets(struct probe_thread *thread, uint32_t sets, uint32_t id)
{
	probe_share_begin(thread);
	for (uint32_t left = sets, set = 1; left; left >>= 1, set++)
		if (left & 1)
			put_exit(thread, set, id);
	probe_share_end(thread);
}

void probe_instances_exit(struct probe_thread *thread, uint64_t link, uint32_t id)
{
	leave_sets(thread, sets_of(link), id);
}

void probe_instances_count(uint64_t link, struct probe_instances_gone *gone)
{
	for (uint32_t left = sets_of(link), set = 1; left; left >>= 1, set++) {
		if (!(left & 1))
			continue;
		gone->counts[set] = gone->sets & 1u << (set - 1) ? gone->counts[set] + 1 : 1;
		gone->sets |= 1u << (set - 1);
	}
}

static void put_unwind(struct probe_thread *thread, unsigned set, uint32_t gone)
{
	struct probe_share *share;

	probe_share_begin(thread);
	share = share_at_end(thread, set);
	if (share) {
		gone = gone < share->depth ? gone : share->depth;
		share->depth -= gone;
		put(thread, set, share, CALLTAP_REC_UNWIND, gone);
	}
	probe_share_end(thread);
}

void probe_instances_unwound(struct probe_thread *thread, const struct probe_instances_gone *gone)
{
	for (uint32_t left = gone->sets, set = 1; left; left >>= 1, set++)
		if (left & 1)
			put_unwind(thread, set, gone->counts[set]);
}

/* The session's own record. */
static void put_own(struct probe_thread *thread, enum calltap_record_kind kind, uint32_t id)
{
	if (!put_usual(thread->writer, kind, id))
		probe_record(thread, kind, id, 1, 0);
}

/* What a handled frame has at arch_within(): the exit comes by the dispatcher for these. */
static void note_who(uint64_t slot, uint32_t own)
{
	*arch_within(slot) = probe_instances_who(*arch_link(slot)) | own;
}

/* What is not usual. */
static int enter(uint64_t slot, uint32_t word, uint32_t own, const uint64_t *ret)
{
	if (own && probe_graph_entry_in_c(slot, word, ret))
		own = 0;
	if (!own && probe_graph_entry_hidden(slot, word, ret))
		return 1;
	note_who(slot, own);
	return 0;
}

int probe_instances_entered(uint64_t slot, uint32_t id, uint32_t who, const uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack = thread->stack;
	uint64_t top = stack->top, gate = probe_context.tree_filter ? thread->tree_gate : thread->gate, flags;
	uint32_t word = probe_instances_word(id, who), own = who & CALLTAP_HANDLED_RECORD;

	/* Another stack, or one some frames of which are gone; or a filter's frame is here, or was. */
	if (slot >= top || slot < stack->low || slot <= gate || slot == thread->tree_gate ||
	    slot == thread->root_gate || !probe_context.enabled)
		return enter(slot, word, own, ret);
	if (own)
		put_own(thread, CALLTAP_REC_ENTRY, id);
	flags = own ? 0 : FRAME_UNRECORDED;
	if (who & CALLTAP_HANDLED_INSTANCES)
		flags |= enter_sets(thread, sets_for(word), id, *ret);
	*arch_link(slot) = top | flags;
	note_who(slot, own);
	arch_frame_open(slot, ret);
	probe_stack_set_top(stack, slot);
	return 0;
}

void probe_instances_left(uint64_t slot, uint32_t id, uint32_t who, uint64_t *ret)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack = thread->stack;
	uint64_t link = *arch_link(slot);

	if (probe_can_record(thread)) {
		if (link & FRAME_INSTANCES)
			leave_sets(thread, sets_of(link), id);
		if (who & CALLTAP_HANDLED_RECORD)
			put_own(thread, CALLTAP_REC_EXIT, id);
	}
	*ret = *arch_mirror(slot);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* an unwinder takes the mirror's word, or this when that is 0 */
	*arch_mirror(slot) = 0;
	probe_stack_set_top(stack, frames_outer(stack, slot, link));
}

void probe_instances_event(struct probe_thread *thread, uint32_t type, const uint64_t *words, uint32_t count)
{
	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++)
		if (share_for(thread, set))
			(void)probe_event(thread, set, type, words, count); /* a loss is counted there */
	probe_share_end(thread);
}
