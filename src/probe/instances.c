/*
 * Records of further instances (instances.h).
 *
 * Called on the program's thread, off the fast path.  Context: probe.  A
 * signal handler between a record and the frame's link leaves its own frames
 * complete; the one that it came into may be missing an UNWIND when the
 * handler jumps away, which readers take as a frame that its caller closes.
 */
#include <offsets.h>
#include <probe/brief.h>
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

/* The sets whose instances want the call, as probe_instances_sets(). */
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

/*
 * A record with its time in a ring that has brief records, too: the tick counts as seen from then on, and no record of
 * a handler's lies between the time and the place (place() in record.c).
 */
static bool put_among_brief(struct probe_thread *thread, unsigned set, struct probe_share *share,
			    enum calltap_record_kind kind, uint32_t id)
{
	const struct calltap_times *times = __atomic_load_n(&probe_times, __ATOMIC_ACQUIRE);
	uint64_t tick = times ? probe_brief_tick(times) : 0;
	bool done = probe_set_record(thread, set, kind, id, 1, 0);

	if (done && times)
		probe_brief_see(&share->tick, tick);
	return done;
}

HOT bool put(struct probe_thread *thread, unsigned set, struct probe_share *share, enum calltap_record_kind kind,
	     uint32_t id, uint64_t now)
{
	if (__builtin_expect(probe_set_at(set)->brief, 0))
		return put_among_brief(thread, set, share, kind, id);
	return probe_put_usual(share->writer, kind, id, now) || probe_set_record(thread, set, kind, id, 1, 0);
}

/*
 * A call that further instances may want: the frame's slot, the function, and where the function was called from.  One
 * time is the call's in all instances: reading the clock takes longer than the rest.
 */
struct arrival {
	uint64_t slot, caller, now;
	uint32_t id;
	bool tail; /* the frame at the slot goes on as the function's */
};

/*
 * Tell where the frame lies whose ENTRY was recorded.  A handler that comes in between leaves no open call, so readers
 * take the event for the thread's innermost one.
 */
static void put_frame(struct probe_thread *thread, unsigned set, uint64_t slot)
{
	const uint64_t word = slot; /* user addresses have 56 bits at the most */

	(void)probe_event(thread, set, CALLTAP_EVENT_FRAME, &word, 1); /* a loss is counted there */
}

/* The bit that the frame's link is to have of the set, or 0. */
HOT uint64_t put_entry(struct probe_thread *thread, unsigned set, struct probe_share *share, const struct arrival *call)
{
	uint32_t most = __atomic_load_n(&probe_set_at(set)->depth_max, __ATOMIC_RELAXED);

	if ((most && share->depth >= most) || !put(thread, set, share, CALLTAP_REC_ENTRY, call->id, call->now))
		return 0;
	share->depth++;
	if (probe_set_at(set)->frames)
		put_frame(thread, set, call->slot);
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
	if (put_entry(thread, set, share, call))
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
		return put_entry(thread, set, share, call);
	return is_root(set, call->id) ? put_root(thread, set, share, call) : 0;
}

HOT uint64_t enter_set(struct probe_thread *thread, unsigned set, const struct arrival *call)
{
	struct probe_share *share = share_for(thread, set);

	if (!share)
		return 0;
	return __atomic_load_n(&probe_set_at(set)->filtered, __ATOMIC_RELAXED) ? put_filtered(thread, set, share, call)
									       : put_entry(thread, set, share, call);
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

HOT void put_exit(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t slot, uint64_t now)
{
	struct probe_share *share = share_at_end(thread, set);
	uint64_t ticks = __atomic_load_n(&probe_set_at(set)->threshold_ticks, __ATOMIC_RELAXED);

	if (!share)
		return;
	if (!end_filters(share, slot) && (!ticks || !probe_take_back(share->writer, id, now, ticks)))
		put(thread, set, share, CALLTAP_REC_EXIT, id, now);
	share->depth--; /* behind the EXIT, which may have to tell of a loss before (open.h) */
}

/*
 * The frame at the slot, which has the set's bit, goes on as a function that the instance does not record: its EXIT is
 * recorded here, under the name of the function whose stub `back` is in.  The frame keeps the filters that it stands
 * for where its exit comes by the dispatcher.
 */
static uint64_t put_end_of_name(struct probe_thread *thread, unsigned set, uint64_t back, const struct arrival *call,
				bool dispatched)
{
	struct probe_share *share = share_at_end(thread, set);
	uint32_t id = frames_id(arch_stub_word(back));

	if (!share || !dispatched || (share->gate != call->slot && share->tree != call->slot)) {
		put_exit(thread, set, id, call->slot, call->now);
		return 0;
	}
	if (share->gate == call->slot || share->quiet_root)
		return FRAME_OF(set);
	share->quiet_root = true;
	put(thread, set, share, CALLTAP_REC_EXIT, id, call->now);
	return FRAME_OF(set);
}

/* The call's frame, which has the set's bit, goes on as a function that hides what it calls. */
static uint64_t put_hidden_tail(struct probe_thread *thread, unsigned set, struct probe_share *share, uint64_t back,
				const struct arrival *call)
{
	if (!(share->tree == call->slot && share->quiet_root))
		put(thread, set, share, CALLTAP_REC_EXIT, frames_id(arch_stub_word(back)), call->now);
	share->gate = call->slot;
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
		return put_hidden_tail(thread, set, share, back, call);
	if (share->tree == call->slot && share->quiet_root) {
		kind = CALLTAP_REC_ENTRY;
		share->quiet_root = false;
	}
	if (put(thread, set, share, kind, call->id, call->now))
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

uint64_t probe_instances_enter_sets(struct probe_thread *thread, uint64_t slot, uint32_t sets, uint32_t id,
				    uint64_t caller)
{
	const struct arrival call = {.slot = slot, .caller = caller, .now = arch_clock(), .id = id};

	return enter_sets(thread, sets, &call);
}

uint64_t probe_instances_enter(struct probe_thread *thread, uint64_t slot, uint32_t word, uint64_t caller)
{
	uint32_t sets = sets_for(word);

	return sets ? probe_instances_enter_sets(thread, slot, sets, frames_id(word), caller) : 0;
}

uint64_t probe_instances_tail(struct probe_thread *thread, uint64_t slot, uint64_t link, uint32_t word, uint64_t back,
			      uint64_t caller)
{
	const struct arrival call = {
		.slot = slot, .caller = caller, .now = arch_clock(), .id = frames_id(word), .tail = true};
	uint32_t had = probe_instances_sets(link), sets = sets_for(word);
	uint64_t flags = 0;

	probe_share_begin(thread);
	for (uint32_t left = had | sets, set = 1; left; left >>= 1, set++) {
		bool begun = link & FRAME_OF(set), wants = sets >> (set - 1) & 1;

		if (wants && is_of_calls(set))
			put_call(thread, set, call.id, call.caller);
		else if (begun && !wants)
			flags |= put_end_of_name(thread, set, back, &call, word & WORD_DISPATCHED);
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

HOT void leave_sets(struct probe_thread *thread, uint32_t sets, uint32_t id, uint64_t slot, uint64_t now)
{
	probe_share_begin(thread);
	for (uint32_t left = sets, set = 1; left; left >>= 1, set++)
		if (left & 1)
			put_exit(thread, set, id, slot, now);
	probe_share_end(thread);
}

void probe_instances_exit(struct probe_thread *thread, uint64_t slot, uint64_t link, uint32_t id)
{
	leave_sets(thread, probe_instances_sets(link), id, slot, arch_clock());
}

void probe_instances_count(struct probe_thread *thread, uint64_t slot, uint64_t link, struct probe_instances_gone *gone)
{
	for (uint32_t left = probe_instances_sets(link), set = 1; left; left >>= 1, set++) {
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
		put(thread, set, share, CALLTAP_REC_UNWIND, gone, arch_clock());
	}
	probe_share_end(thread);
}

void probe_instances_unwound(struct probe_thread *thread, const struct probe_instances_gone *gone)
{
	for (uint32_t left = gone->sets, set = 1; left; left >>= 1, set++)
		if (left & 1)
			put_unwind(thread, set, gone->counts[set]);
}

void probe_instances_event(struct probe_thread *thread, uint32_t type, const uint64_t *words, uint32_t count)
{
	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++)
		if (share_for(thread, set))
			(void)probe_event(thread, set, type, words, count); /* a loss is counted there */
	probe_share_end(thread);
}
