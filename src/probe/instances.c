/*
 * Records of further instances (instances.h).
 *
 * Called on the program's thread, off the fast path.  Context: probe.  A
 * signal handler between a record and the frame's link leaves its own frames
 * complete; the one that it came into may be missing an UNWIND when the
 * handler jumps away, which readers take as a frame that its caller closes.
 */
#include <probe/instances.h>

/* What the instance that has the set now leaves in links. */
static uint64_t mark_of(unsigned set)
{
	uint32_t on = __atomic_load_n(&probe_context.wiped->sets[set].on, __ATOMIC_RELAXED);

	return on ? (uint64_t)(on % 7 + 1) << FRAME_OF_AT(set) : 0;
}

/* Not one that has ended: that frame is none of the next one's. */
static bool has_entry(uint64_t link, unsigned set)
{
	return link & FRAME_OF(set) && (link & FRAME_OF(set)) == mark_of(set);
}

static bool put(struct probe_thread *thread, unsigned set, enum calltap_record_kind kind, uint32_t id)
{
	return probe_set_attach(thread, set) && probe_set_record(thread, set, kind, id, 1, 0);
}

/* By what the dispatcher says. */
static bool is_wanted(uint32_t word, unsigned set)
{
	return word & WORD_DISPATCHED && word >> WORD_INSTANCE_AT & 1u << (set - 1);
}

static bool is_of_calls(unsigned set)
{
	return probe_context.wiped->sets[set].calls;
}

static void put_call(struct probe_thread *thread, unsigned set, uint32_t id, uint64_t caller)
{
	if (probe_set_attach(thread, set))
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
		else if (put(thread, set, CALLTAP_REC_ENTRY, id))
			flags |= mark_of(set);
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
			put(thread, set, CALLTAP_REC_EXIT, old);
		else if (wants && put(thread, set, had ? CALLTAP_REC_TAIL : CALLTAP_REC_ENTRY, id))
			flags |= mark_of(set);
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

void probe_instances_exit(struct probe_thread *thread, uint64_t link, uint32_t id)
{
	probe_share_begin(thread);
	for (unsigned set = 1; set < PROBE_SETS; set++)
		if (has_entry(link, set))
			put(thread, set, CALLTAP_REC_EXIT, id);
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
		if (!gone[set])
			continue;
		probe_share_begin(thread);
		put(thread, set, CALLTAP_REC_UNWIND, gone[set]);
		probe_share_end(thread);
	}
}
