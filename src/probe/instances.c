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

/* A call that a further instance may want: the frame's slot, the function, and where the function was called from. */
struct arrival {
	uint64_t slot, caller;
	uint32_t id;
	bool tail; /* the frame at the slot goes on as the function's */
};

/* The bit that the frame's link is to have of the set, or 0. */
HOT uint64_t put_entry(struct probe_thread *thread, unsigned set, struct probe_share *share, uint32_t id)
{
	uint32_t most = __atomic_load_n(&probe_set_at(set)->depth_max, __ATOMIC_RELAXED);

	if ((most && share->depth >= most) || !put(thread, set, share, CALLTAP_REC_ENTRY, id))
		return 0;
	share->depth++;
	return FRAME_OF(set);
}

/*
 * Is the frame that a filter of the share's named gone?  A handler that jumped away between the filter's store and the
 * frame's link has left a frame that nobody tells of.
 */
static bool is_stale(const struct probe_stack *stack, uint64_t filter, const struct arrival *call)
{
	return filter && filter < call->slot + !call->tail && filter >= stack->lowest;
}

static void settle_filters(const struct probe_stack *stack, struct probe_share *share, const struct arrival *call)
{
	if (is_stale(stack, share->gate, call))
		share->gate = 0;
	if (is_stale(stack, share->tree, call))
		share->tree = 0;
}

/* An ENTRY that is lost does not keep the tree below it from being recorded. */
static uint64_t put_root(struct probe_thread *thread, unsigned set, struct probe_share *share,
			 const struct arrival *call)
{
	share->tree = call->slot;
	share->quiet_root = false;
	if (put_entry(thread, set, share, call->id))
		return FRAME_OF(set);
	share->quiet_root = true;
	share->depth++;
	return FRAME_OF(set);
}

/* Does the instance have the function hide what it calls? */
static bool hides(unsigned set, uint32_t id)
{
	return __atomic_load_n(&probe_set_at(set)->filtered, __ATOMIC_RELAXED) &&
	       probe_handled_roles(id) >> CALLTAP_ROLES_HIDES_AT >> (set - 1) & 1;
}

/* Does a tree begin at the function? */
static bool is_root(unsigned set, uint32_t id)
{
	return probe_handled_roles(id) >> (set - 1) & 1;
}

/* put_entry() under -g and --no-graph. */
static uint64_t put_filtered(struct probe_thread *thread, unsigned set, struct probe_share *share,
			     const struct arrival *call)
{
	bool trees = __atomic_load_n(&probe_set_at(set)->trees, __ATOMIC_RELAXED);

	settle_filters(thread->stack, share, call);
	if (call->slot < share->gate)
		return 0;
	if (hides(set, call->id)) {
		share->gate = call->slot;
		share->depth++;
		return FRAME_OF(set);
	}
	if (!trees || share->tree)
		return put_entry(thread, set, share, call->id);
	return is_root(set, call->id) ? put_root(thread, set, share, call) : 0;
}

HOT uint64_t enter_set(struct probe_thread *thread, unsigned set, const struct arrival *call)
{
	struct probe_share *share = share_for(thread, set);

	if (!share)
		return 0;
	return __atomic_load_n(&probe_set_at(set)->filtered, __ATOMIC_RELAXED)
		       ? put_filtered(thread, set, share, call)
		       : put_entry(thread, set, share, call->id);
}

/* The frame at the slot ends: so do the filters that it stands for.  True: the frame has no ENTRY. */
HOT bool end_filters(struct probe_share *share, uint64_t slot)
{
	bool quiet = false;

	if (!(share->gate | share->tree))
		return false;
	if (share->gate == slot) {
		share->gate = 0;
		quiet = true;
	}
	if (share->tree == slot) {
		quiet |= share->quiet_root;
		share->tree = 0;
	}
	return quiet;
}

HOT void put_exit(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t slot)
{
	struct probe_share *share = share_at_end(thread, set);
	uint64_t ticks = __atomic_load_n(&probe_set_at(set)->threshold_ticks, __ATOMIC_RELAXED);

	if (!share)
		return;
	share->depth--;
	if (end_filters(share, slot))
		return;
	if (!ticks || !probe_take_back(share->writer, id, arch_clock(), ticks))
		put(thread, set, share, CALLTAP_REC_EXIT, id);
}

/*
 * The frame at the slot, which has the set's bit, goes on as a function that the instance does not record: its EXIT is
 * recorded here, under the name of the function whose stub `back` is in.  The frame keeps the filters that it stands
 * for where its exit comes by the dispatcher.
 */
static uint64_t put_end_of_name(struct probe_thread *thread, unsigned set, uint64_t back, uint64_t slot,
				bool dispatched)
{
	struct probe_share *share = share_at_end(thread, set);
	uint32_t id = frames_id(arch_stub_word(back));

	if (!share || !dispatched || (share->gate != slot && share->tree != slot)) {
		put_exit(thread, set, id, slot);
		return 0;
	}
	if (share->gate == slot || share->quiet_root)
		return FRAME_OF(set);
	share->quiet_root = true;
	put(thread, set, share, CALLTAP_REC_EXIT, id);
	return FRAME_OF(set);
}

/* The call's frame, which has the set's bit, goes on as a function that hides what it calls. */
static uint64_t put_hidden_tail(struct probe_thread *thread, unsigned set, struct probe_share *share, uint64_t back,
				uint64_t slot)
{
	if (!(share->tree == slot && share->quiet_root))
		put(thread, set, share, CALLTAP_REC_EXIT, frames_id(arch_stub_word(back)));
	share->gate = slot;
	return FRAME_OF(set);
}

/*
 * The call's frame, of the function whose stub `back` is in, goes on under another name.  Where the frame was entered
 * for an instance that has ended, this is the call's beginning.
 */
static uint64_t put_tail(struct probe_thread *thread, unsigned set, uint64_t back, const struct arrival *call)
{
	struct probe_share *share = share_at_end(thread, set);
	enum calltap_record_kind kind = CALLTAP_REC_TAIL;

	if (!share)
		return enter_set(thread, set, call);
	if (share->gate == call->slot)
		return FRAME_OF(set);
	if (hides(set, call->id))
		return put_hidden_tail(thread, set, share, back, call->slot);
	if (share->tree == call->slot && share->quiet_root) {
		kind = CALLTAP_REC_ENTRY;
		share->quiet_root = false;
	}
	if (put(thread, set, share, kind, call->id))
		return FRAME_OF(set);
	if (share->tree == call->slot) {
		share->quiet_root = true;
		return FRAME_OF(set);
	}
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

/* The bits of these sets that the frame's link is to have. */
HOT uint64_t enter_sets(struct probe_thread *thread, uint32_t sets, const struct arrival *call)
{
	uint64_t flags = 0;

	probe_share_begin(thread);
	for (uint32_t left = sets, set = 1; left; left >>= 1, set++) {
		if (!(left & 1))
			continue;
		if (is_of_calls(set))
			put_call(thread, set, call->id, call->caller);
		else
			flags |= enter_set(thread, set, call);
	}
	probe_share_end(thread);
	return flags;
}

uint64_t probe_instances_enter(struct probe_thread *thread, uint64_t slot, uint32_t word, uint64_t caller)
{
	const struct arrival call = {.slot = slot, .caller = caller, .id = frames_id(word)};
	uint32_t sets = sets_for(word);

	return sets ? enter_sets(thread, sets, &call) : 0;
}

uint64_t probe_instances_tail(struct probe_thread *thread, uint64_t slot, uint64_t link, uint32_t word, uint64_t back,
			      uint64_t caller)
{
	const struct arrival call = {.slot = slot, .caller = caller, .id = frames_id(word), .tail = true};
	uint32_t had = sets_of(link), sets = sets_for(word);
	uint64_t flags = 0;

	probe_share_begin(thread);
	for (uint32_t left = had | sets, set = 1; left; left >>= 1, set++) {
		bool begun = link & FRAME_OF(set), wants = sets >> (set - 1) & 1;

		if (wants && is_of_calls(set))
			put_call(thread, set, call.id, call.caller);
		else if (begun && !wants)
			flags |= put_end_of_name(thread, set, back, slot, word & WORD_DISPATCHED);
		else if (wants)
			flags |= begun ? put_tail(thread, set, back, &call) : enter_set(thread, set, &call);
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

HOT void leave_sets(struct probe_thread *thread, uint32_t sets, uint32_t id, uint64_t slot)
{
	probe_share_begin(thread);
	for (uint32_t left = sets, set = 1; left; left >>= 1, set++)
		if (left & 1)
			put_exit(thread, set, id, slot);
	probe_share_end(thread);
}

void probe_instances_exit(struct probe_thread *thread, uint64_t slot, uint64_t link, uint32_t id)
{
	leave_sets(thread, sets_of(link), id, slot);
}

void probe_instances_count(struct probe_thread *thread, uint64_t slot, uint64_t link, struct probe_instances_gone *gone)
{
	for (uint32_t left = sets_of(link), set = 1; left; left >>= 1, set++) {
		struct probe_share *share = &thread->further[set - 1];

		if (!(left & 1))
			continue;
		if (end_filters(share, slot)) {
			share->depth -= share->depth != 0;
			continue;
		}
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

/* What a handled frame has at arch_who(): the exit comes by the dispatcher for these. */
static void note_who(uint64_t slot, uint32_t own)
{
	*arch_who(slot) = probe_instances_who(*arch_link(slot)) | own;
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
	const struct arrival call = {.slot = slot, .caller = *ret, .id = id};

	/* The long way keeps the times of frames, and finds another stack, frames that are gone, and filters' frames.
	 */
	if ((probe_context.timed && (own || probe_context.profile)) || slot >= top || slot < stack->low ||
	    slot <= gate || slot == thread->tree_gate || slot == thread->root_gate || !probe_context.enabled)
		return enter(slot, word, own, ret);
	if (own)
		put_own(thread, CALLTAP_REC_ENTRY, id);
	flags = own ? 0 : FRAME_UNRECORDED;
	if (who & CALLTAP_HANDLED_INSTANCES)
		flags |= enter_sets(thread, sets_for(word), &call);
	if (flags == FRAME_UNRECORDED)
		return 1; /* nobody waits for its end */
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
	bool own = who & CALLTAP_HANDLED_RECORD;

	if (probe_context.timed && (own || probe_context.profile)) {
		if (own)
			probe_trigger_exit(slot, id, ret);
		else
			probe_graph_exit_notree(slot, id, ret);
		return;
	}
	if (probe_can_record(thread)) {
		if (link & FRAME_INSTANCES)
			leave_sets(thread, sets_of(link), id, slot);
		if (own)
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
