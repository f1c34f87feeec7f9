/*
 * function_graph and function in full: filters, depth, threshold, frames that
 * ended without returning, other stacks, tail calls.
 *
 * Called by entry.S on the program's thread.  Context: probe.  A signal
 * handler may come in anywhere and run the same code; each step leaves a state
 * that it can work on, and a handler leaves `top` as it found it.
 *
 * What is known of a frame at slot S: mirror(S) = its return address, not 0
 * while it is live (or stale: left by longjmp or an exception); link(S) = the
 * slot of the next outer traced frame of the same stack, bit 0 set when the
 * frame wrote no ENTRY.  thread->top is the innermost slot of the stack that
 * the thread ran on at its last event.  doc/design/stubs.md has the argument.
 */
#include <probe/graph.h>
#include <probe/thread.h>

#define UNRECORDED    ((uint64_t)1) /* in a link: the frame below it wrote no ENTRY */
#define WALK_MAX      (1u << 20)
#define STACK_TOP_GAP (STACK_NEAR / 2) /* a stack without frames has its top this far above the first slot */

static uint32_t word_id(uint32_t word)
{
	return word & CALLTAP_RECORD_ID_MAX;
}

static bool is_near(uint64_t a, uint64_t b)
{
	return a - b + STACK_NEAR <= 2 * (uint64_t)STACK_NEAR;
}

/* True when link(slot) may be read: the slot's granule has its planes. */
static bool can_read(struct probe_thread *thread, uint64_t slot)
{
	return slot >> GRANULE_BITS == thread->granule || probe_mirror_is_covered(slot);
}

/*
 * Frames from top up to (not including) the first whose slot is at or above
 * `end` are gone: note how many, and make that one the top.
 */
static void drop_frames(struct probe_thread *thread, uint64_t end)
{
	uint64_t top = thread->top;
	uint32_t gone = 0, walked = 0;

	while (top < end && walked++ < WALK_MAX && can_read(thread, top)) {
		uint64_t link = *arch_link(top);

		gone += !(link & UNRECORDED);
		link &= ~UNRECORDED;
		if (link <= top) /* overwritten: the chain ends here */
			link = end + STACK_TOP_GAP;
		top = link;
	}
	thread->top = top;
	if (!gone)
		return;
	thread->depth = thread->depth > gone ? thread->depth - gone : 0;
	probe_record(thread, CALLTAP_REC_UNWIND, gone, 1, 0);
}

/* The thread runs on another stack than at its last event: keep that one's top, find this one's. */
static void switch_stack(struct probe_thread *thread, uint64_t slot)
{
	uint64_t top = slot + STACK_TOP_GAP;
	uint32_t into = PROBE_STACKS;

	for (uint32_t i = 0; i < PROBE_STACKS; i++) {
		if (!is_near(thread->stacks[i], slot))
			continue;
		top = thread->stacks[i];
		into = i;
		break;
	}
	if (into == PROBE_STACKS)
		into = thread->stack_next++ % PROBE_STACKS;
	thread->stacks[into] = thread->top;
	thread->top = top;
	probe_record(thread, CALLTAP_REC_STACK, 0, 2, slot);
}

/* Bring thread->top in line with a frame at slot that is being entered (inside it) or left (it). */
static void settle(struct probe_thread *thread, uint64_t slot, bool leaving)
{
	if (!is_near(thread->top, slot))
		switch_stack(thread, slot);
	if (leaving ? thread->top < slot : thread->top <= slot)
		drop_frames(thread, leaving ? slot : slot + 1);
}

/* Filters that lie by slot are over when the stack is above them: their frame was left without returning. */
static void settle_gates(struct probe_thread *thread, uint64_t slot)
{
	if (thread->tree && slot > thread->tree && is_near(slot, thread->tree)) {
		thread->tree = 0;
		thread->gate = ~(uint64_t)0;
	}
	if (thread->gate && ~thread->gate && slot > thread->gate && is_near(slot, thread->gate))
		thread->gate = 0;
}

/* The tool tells the user: nothing is left out silently. */
static void count_untraced(void)
{
	struct probe_wiped *wiped = probe_context.wiped;

	if (probe_context.enabled && wiped->alive && wiped->arenas[0])
		__atomic_add_fetch(&wiped->arenas[0]->untraced, 1, __ATOMIC_RELAXED);
}

static bool can_record(struct probe_thread *thread)
{
	return probe_context.enabled && probe_thread_attach(thread);
}

/* A call that comes in at slot: false when it cannot be traced. */
static bool arrive(struct probe_thread *thread, uint64_t slot)
{
	if (!can_record(thread) || (slot >> GRANULE_BITS != thread->granule && !probe_mirror_cover(thread, slot))) {
		count_untraced();
		return false;
	}
	settle_gates(thread, slot);
	return true;
}

static void push_frame(struct probe_thread *thread, uint64_t *slot, uint64_t flag)
{
	uint64_t s = (uint64_t)slot;

	*arch_link(s) = thread->top | flag;
	*arch_mirror(s) = *slot;
	thread->top = s;
}

/*
 * The function was reached by a tail call: the frame in this slot goes on
 * under another name, and its return address stays where it is.
 */
static bool take_over_frame(struct probe_thread *thread, uint64_t *slot, uint32_t word)
{
	uint64_t s = (uint64_t)slot;

	if (!*arch_mirror(s) || !probe_region_of(*slot))
		return false;
	settle(thread, s, true);
	if (*arch_link(s) & UNRECORDED) {
		*arch_link(s) &= ~UNRECORDED; /* its exit stub is this function's from now on */
		thread->depth += probe_context.depth_max != 0;
		probe_record(thread, CALLTAP_REC_ENTRY, word_id(word), 1, 0);
	} else {
		probe_record(thread, CALLTAP_REC_TAIL, word_id(word), 1, 0);
	}
	return true;
}

static int enter(struct probe_thread *thread, uint64_t *slot, uint32_t word)
{
	uint64_t s = (uint64_t)slot;

	if (take_over_frame(thread, slot, word))
		return 0;
	settle(thread, s, false);
	probe_record(thread, CALLTAP_REC_ENTRY, word_id(word), 1, 0);
	push_frame(thread, slot, 0);
	if (probe_context.depth_max && ++thread->depth >= probe_context.depth_max)
		thread->gate = s;
	return 0;
}

int probe_graph_entry(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;
	uint64_t s = (uint64_t)slot;

	if (!arrive(thread, s))
		return 1;
	if (s < thread->gate)
		return 1;
	return enter(thread, slot, word);
}

int probe_graph_entry_root(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;
	uint64_t s = (uint64_t)slot;

	if (!arrive(thread, s))
		return 1;
	if (!thread->tree) {
		if (s < thread->gate && ~thread->gate)
			return 1;
		thread->tree = s;
		thread->gate = 0;
	} else if (s < thread->gate) {
		return 1;
	}
	return enter(thread, slot, word);
}

int probe_graph_entry_notree(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;
	uint64_t s = (uint64_t)slot;

	if (!arrive(thread, s))
		return 1;
	/* Reached by a tail call: the caller's exit stub must stay, so this one cannot be hidden. */
	if (s < thread->gate || probe_region_of(*slot))
		return 1;
	settle(thread, s, false);
	push_frame(thread, slot, UNRECORDED);
	thread->gate = s;
	return 0;
}

/* Forget the frame at slot and give its return address back. */
static void pop_frame(struct probe_thread *thread, uint64_t *slot)
{
	uint64_t s = (uint64_t)slot, flagged = *arch_link(s), link = flagged & ~UNRECORDED;

	if (thread->top == s)
		thread->top = link > s ? link : s + STACK_TOP_GAP;
	*slot = *arch_mirror(s);
	*arch_mirror(s) = 0;
	if (thread->gate == s)
		thread->gate = 0;
	if (thread->tree == s) {
		thread->tree = 0;
		thread->gate = ~(uint64_t)0;
	}
	/* What wrote no ENTRY was not counted. */
	if (probe_context.depth_max && !(flagged & UNRECORDED) && thread->depth)
		thread->depth--;
}

void probe_graph_exit(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;

	if (can_record(thread)) {
		settle(thread, (uint64_t)slot, true);
		probe_record(thread, CALLTAP_REC_EXIT, word_id(word), 1, 0);
	}
	pop_frame(thread, slot);
}

/*
 * A short call leaves no record: when its ENTRY is the last one written, take
 * it back.  Its callees' were taken back before it, or it is not short.
 */
static bool take_back(struct probe_thread *thread, uint32_t id, uint64_t now)
{
	struct ring_writer *writer = thread->writer;
	uint64_t cursor = writer->cursor, entry;
	uint64_t *last = (uint64_t *)cursor - 1;

	/* At least one record, and none behind the end. */
	if (cursor - sizeof(*last) - writer->base >= writer->span)
		return false;
	entry = *last;
	if (calltap_record_kind(entry) != CALLTAP_REC_ENTRY || calltap_record_id(entry) != id ||
	    writer->time_hi != now >> 32 || (uint32_t)now - (uint32_t)entry >= probe_context.threshold_ticks)
		return false;
	/* The slot is emptied first: between the swap and a later store a handler could have taken it. */
	ring_put(last, 0);
	if (arch_local_cas(&writer->cursor, cursor, cursor - sizeof(*last)))
		return true;
	ring_put(last, entry);
	return false;
}

void probe_graph_exit_full(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;

	if (can_record(thread)) {
		settle(thread, (uint64_t)slot, true);
		if (!probe_context.threshold_ticks || !take_back(thread, word_id(word), arch_clock()))
			probe_record(thread, CALLTAP_REC_EXIT, word_id(word), 1, 0);
	}
	pop_frame(thread, slot);
}

void probe_graph_exit_notree(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;

	(void)word;
	if (can_record(thread))
		settle(thread, (uint64_t)slot, true);
	pop_frame(thread, slot);
}

void probe_call(uint64_t *slot, uint32_t word)
{
	struct probe_thread *thread = &probe_thread;

	if (can_record(thread))
		probe_record(thread, CALLTAP_REC_CALL, word_id(word), 2, *slot);
	else
		count_untraced();
}
