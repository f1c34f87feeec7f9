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
#include <probe/instances.h>

_Static_assert(CALLTAP_HANDLED_RECORD == HW_RECORD, "handlers.S");

/* The instance that has the set now; 0 = none.  Acquire: pairs with agent_instance_take(). */
static uint32_t on_of(unsigned set)
{
	return __atomic_load_n(&probe_set_at(set)->on, __ATOMIC_ACQUIRE);
}

/* What that one leaves in links. */
static uint64_t mark_of(unsigned set)
{
	uint32_t on = on_of(set);

	return on ? (uint64_t)(on % 7 + 1) << FRAME_OF_AT(set) : 0;
}

/* Not one that has ended: that frame is none of the next one's. */
static bool has_entry(uint64_t link, unsigned set)
{
	return link & FRAME_OF(set) && (link & FRAME_OF(set)) == mark_of(set);
}

/* The thread's place in the rings of the one that has the set now; NULL = it gets none. */
static struct probe_share *share_in(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = &thread->further[set - 1];
	uint32_t on = on_of(set);

	if (on && share->generation == on && share->writer->ring)
		return share;
	return probe_set_attach(thread, set) ? share : NULL;
}

/* The thread's place for a call that begins, as share_in(); a call that gets none is counted. */
static struct probe_share *share_for(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = share_in(thread, set);

	if (!share && on_of(set))
		probe_count_untraced(set);
	return share;
}

/* What is usual.  False: anything else, to be begun anew. */
static inline bool put_usual(struct ring_writer *writer, enum calltap_record_kind kind, uint32_t id)
{
	uint64_t now = arch_clock(), *slot = writer->time_hi == now >> 32 ? ring_take(writer, 1) : NULL;

	if (slot)
		ring_put(slot, calltap_record_make(kind, id, (uint32_t)now));
	return slot != NULL;
}

static bool put(struct probe_thread *thread, unsigned set, const struct probe_share *share,
		enum calltap_record_kind kind, uint32_t id)
{
	return put_usual(share->writer, kind, id) || probe_set_record(thread, set, kind, id, 1, 0);
}

/* What the frame's link is to have of it. */
static uint64_t put_entry(struct probe_thread *thread, unsigned set, uint32_t id)
{
	struct probe_share *share = share_for(thread, set);
	uint32_t most = __atomic_load_n(&probe_set_at(set)->depth_max, __ATOMIC_RELAXED);

	if (!share || (most && share->depth >= most) || !put(thread, set, share, CALLTAP_REC_ENTRY, id))
		return 0;
	share->depth++;
	return (uint64_t)share->mark << FRAME_OF_AT(set);
}

/* That many frames that it has are no more. */
static void count_down(struct probe_share *share, uint32_t gone)
{
	share->depth -= share->depth < gone ? share->depth : gone;
}

static void put_exit(struct probe_thread *thread, unsigned set, uint32_t id)
{
	struct probe_share *share = share_in(thread, set);
	uint64_t ticks = __atomic_load_n(&probe_set_at(set)->threshold_ticks, __ATOMIC_RELAXED);

	if (!share)
		return;
	count_down(share, 1);
	if (!ticks || !probe_take_back(share->writer, id, arch_clock(), ticks))
		put(thread, set, share, CALLTAP_REC_EXIT, id);
}

/* The frame goes on under another name. */
static uint64_t put_tail(struct probe_thread *thread, unsigned set, uint32_t id)
{
	struct probe_share *share = share_in(thread, set);

	if (share && put(thread, set, share, CALLTAP_REC_TAIL, id))
		return (uint64_t)share->mark << FRAME_OF_AT(set);
	if (share)
		count_down(share, 1);
	return 0;
}

/* By what the dispatcher says. */
static bool is_wanted(uint32_t word, unsigned set)
{
	return word & WORD_DISPATCHED && word >> WORD_INSTANCE_AT & 1u << (set - 1);
}

static bool is_of_calls(unsigned set)
{
	return probe_set_at(set)->calls;
}

static void put_call(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t caller)
{
	if (share_for(thread, set))
		probe_set_record(thread, set, CALLTAP_REC_CALL, id, 2, caller);
}

uint64_t probe_instances_enter(struct probe_thread *thread, uint32_t word, uint64_t caller)
{
	uint32_t id = frames_id(word);
	uint64_t flags = 0;

	if (!(word & WORD_DISPATCHED))
		return 0;
	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++) {
		if (!is_wanted(word, set))
			continue;
		if (is_of_calls(set))
			put_call(thread, set, id, caller);
		else
			flags |= put_entry(thread, set, id);
	}
	probe_share_end(thread);
	return flags;
}

uint64_t probe_instances_tail(struct probe_thread *thread, uint64_t link, uint32_t word, uint64_t back, uint64_t caller)
{
	uint32_t id = frames_id(word), old = frames_id(arch_stub_word(back));
	uint64_t flags = 0;

	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++) {
		bool had = has_entry(link, set), wants = is_wanted(word, set);

		if (wants && is_of_calls(set))
			put_call(thread, set, id, caller);
		else if (had && !wants)
			put_exit(thread, set, old);
		else if (wants)
			flags |= had ? put_tail(thread, set, id) : put_entry(thread, set, id);
	}
	probe_share_end(thread);
	return (link & ~FRAME_INSTANCES) | flags;
}

void probe_instances_call(struct probe_thread *thread, uint32_t word, uint64_t caller)
{
	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++)
		if (is_wanted(word, set) && is_of_calls(set))
			put_call(thread, set, frames_id(word), caller);
	probe_share_end(thread);
}

void probe_instances_missed(uint32_t word)
{
	for (unsigned set = 1; set < PROBE_SETS; set++)
		if (is_wanted(word, set) && on_of(set))
			probe_count_untraced(set);
}

void probe_instances_exit(struct probe_thread *thread, uint64_t link, uint32_t id)
{
	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++)
		if (has_entry(link, set))
			put_exit(thread, set, id);
	probe_share_end(thread);
}

void probe_instances_count(uint64_t link, uint32_t gone[PROBE_SETS])
{
	for (unsigned set = 1; set < PROBE_SETS; set++)
		gone[set] += has_entry(link, set);
}

void probe_instances_unwound(struct probe_thread *thread, const uint32_t gone[PROBE_SETS])
{
	for (unsigned set = 1; set < PROBE_SETS; set++) {
		struct probe_share *share;

		if (!gone[set])
			continue;
		probe_share_begin(thread);
		share = share_in(thread, set);
		if (share) {
			count_down(share, gone[set]);
			put(thread, set, share, CALLTAP_REC_UNWIND, gone[set]);
		}
		probe_share_end(thread);
	}
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

int probe_instances_entered(uint64_t slot, uint32_t id, uint32_t who)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack = thread->stack;
	uint64_t top = stack->top, gate = probe_context.tree_filter ? thread->tree_gate : thread->gate, flags;
	uint32_t word = probe_instances_word(id, who), own = who & CALLTAP_HANDLED_RECORD;
	const uint64_t *ret = (const uint64_t *)slot;

	/* Another stack, or one some frames of which are gone; or a filter's frame is here, or was. */
	if (slot >= top || slot < stack->low || slot <= gate || slot == thread->tree_gate ||
	    slot == thread->root_gate || !probe_context.enabled)
		return enter(slot, word, own, ret);
	if (own)
		put_own(thread, CALLTAP_REC_ENTRY, id);
	flags = own ? 0 : FRAME_UNRECORDED;
	if (who & INSTANCES_WHO)
		flags |= probe_instances_enter(thread, word, *ret);
	*arch_link(slot) = top | flags;
	note_who(slot, own);
	arch_frame_open(slot, ret);
	probe_stack_set_top(stack, slot);
	return 0;
}

void probe_instances_left(uint64_t slot, uint32_t id, uint32_t who)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack = thread->stack;
	uint64_t link = *arch_link(slot);

	if (probe_can_record(thread)) {
		if (link & FRAME_INSTANCES)
			probe_instances_exit(thread, link, id);
		if (who & CALLTAP_HANDLED_RECORD)
			put_own(thread, CALLTAP_REC_EXIT, id);
	}
	*(uint64_t *)slot = *arch_mirror(slot);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* an unwinder takes the mirror's word, or this when that is 0 */
	*arch_mirror(slot) = 0;
	probe_stack_set_top(stack, frames_outer(stack, slot, link));
}
