/*
 * Sums of calls in a thread's table (profile.h, calltap/abi/profile.h).
 *
 * Called by claim.c, graph.c and settle.c on the program's thread.  Context: probe.  A signal handler may come in
 * anywhere and add to the same words, so each sum is changed in one step (arch_local_add).  The ABI's header says what
 * a reader of the table may rely on.
 */
#include <offsets.h>
#include <probe/frames.h>
#include <probe/profile.h>

_Static_assert(offsetof(struct probe_table, entries) == TB_ENTRIES, "profile.S");
_Static_assert(offsetof(struct probe_table, data) == TB_DATA, "profile.S");
_Static_assert(offsetof(struct probe_table, first) == TB_FIRST, "profile.S");
_Static_assert(offsetof(struct probe_table, span) == TB_SPAN, "profile.S");
_Static_assert(offsetof(struct probe_table, claimed) == TB_CLAIMED, "profile.S");
_Static_assert(offsetof(struct probe_table, end) == TB_END, "profile.S");
_Static_assert(offsetof(struct probe_table, watch) == TB_WATCH, "ticked.S");
_Static_assert(offsetof(struct calltap_profile, pending) == PP_PENDING, "profile.S");
_Static_assert(sizeof(struct calltap_profile_entry) == 1 << PE_BITS, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, calls) == PE_CALLS, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, total) == PE_TOTAL, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, self) == PE_SELF, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, max) == PE_MAX, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, outer) == PE_OUTER, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, since) == PE_SINCE, "profile.S");
_Static_assert(offsetof(struct calltap_profile_entry, histogram) == PE_HISTOGRAM, "profile.S");
_Static_assert(sizeof(struct calltap_profile) == PP_BYTES, "profile.S");
_Static_assert((int)(offsetof(struct calltap_ring, own) + offsetof(struct calltap_profile_shape, watch)) -
			       (int)CALLTAP_PAGE ==
		       RING_WATCH,
	       "profile.S");
_Static_assert(4 * (LONGEST_BITS - 1) + 4 == CALLTAP_PROFILE_BUCKETS, "profile.S");
_Static_assert(CALLTAP_RECORD_ID_BITS == ID_BITS, "recorder.inc");

#define CALLER_PROBES 16 /* places in the hash that are looked at for an address */

/* For the fast recorders, which so have a new function to watch by the next tick. */
static void look_whom_to_watch(struct probe_table *table)
{
	uint32_t watch = __atomic_load_n(&calltap_profile_shape(table->ring)->watch, __ATOMIC_RELAXED);

	table->watch = watch ? table->entries + ((uint64_t)(watch - 1) << PE_BITS) : 0;
}

/* The present tick, and not one that the thread has gone past (begin_ticks()). */
static uint64_t tick_of(struct probe_thread *thread)
{
	uint64_t tick = __atomic_load_n(&probe_times->tick, __ATOMIC_RELAXED);

	if (tick <= thread->tick)
		return thread->tick;
	if (thread->table->functions)
		look_whom_to_watch(thread->table);
	thread->tick = tick;
	return tick;
}

uint64_t probe_profile_clock(struct probe_thread *thread)
{
	return probe_times ? tick_of(thread) : arch_clock();
}

/*
 * When the thread takes a table.  A forked child's thread has frames that its parent has entered, under the same tick
 * perhaps; this time is behind all of theirs, until the next tick.
 */
static uint64_t begin_ticks(struct probe_thread *thread)
{
	uint64_t before = thread->tick, tick = tick_of(thread);

	thread->tick = tick > before ? tick : before + 1;
	return thread->tick;
}

void probe_table_attach(struct probe_thread *thread, const struct calltap_arena *arena)
{
	struct ring_writer *writer = thread->writer;
	struct probe_table *table = &probe_context.wiped->tables[writer - probe_context.wiped->sets[0].writers];
	struct calltap_ring *ring = writer->ring;
	const struct calltap_profile_shape *shape = calltap_profile_shape(ring);
	uint32_t functions = shape->functions, callers = shape->callers, histograms = shape->histograms;
	uint64_t room = (uint64_t)ring->sub_size * ring->sub_count;

	if (ring->mode != CALLTAP_MODE_PROFILE || !histograms || !callers || callers & (callers - 1) ||
	    calltap_profile_size(functions, callers, histograms) > room || room + CALLTAP_PAGE > arena->ring_stride)
		functions = 0;
	table->data = (uint64_t)ring + CALLTAP_PAGE;
	table->entries = table->data + calltap_profile_at_entry(0);
	table->first = calltap_profile_at_histogram(functions, callers, 0);
	table->span = (uint64_t)histograms * sizeof(struct calltap_profile_histogram) - (sizeof(uint64_t) - 1);
	table->claimed = probe_times ? begin_ticks(thread) : ring->claim_ticks;
	table->ring = ring;
	table->functions = functions;
	table->end = table->entries + ((uint64_t)functions << PE_BITS);
	look_whom_to_watch(table);
	thread->table = table;
}

static struct calltap_profile *head_of(const struct probe_table *table)
{
	return (struct calltap_profile *)table->data;
}

static struct calltap_profile_entry *entry_of(const struct probe_table *table, uint32_t id)
{
	return (struct calltap_profile_entry *)table->entries + id;
}

bool probe_profile_has(struct probe_thread *thread, uint32_t id)
{
	const struct probe_table *table = thread->table;

	if (id < table->functions)
		return true;
	if (table->functions)
		arch_local_add(&head_of(table)->beyond, 1);
	return false;
}

/* True if the outermost call that the entry has noted (outer, since) is still open. */
static bool is_open(const struct probe_table *table, const struct calltap_profile_entry *entry)
{
	uint64_t slot = entry->outer;

	return slot && !(slot & 7) && entry->since >= table->claimed && probe_mirror_is_covered(slot) &&
	       probe_timed_is_covered(slot) && *arch_mirror(slot) && *arch_entered(slot) == entry->since;
}

void probe_profile_open(struct probe_thread *thread, uint64_t slot, uint32_t id)
{
	struct calltap_profile_entry *entry;

	if (id >= thread->table->functions)
		return;
	entry = entry_of(thread->table, id);
	if (is_open(thread->table, entry))
		return;
	entry->since = *arch_entered(slot);
	__atomic_signal_fence(
		__ATOMIC_SEQ_CST); /* a signal handler that calls the function takes the pair for an open call */
	entry->outer = slot;
}

/* Byte offset of the function's histogram in the data area.  The first call that ends gets the function one. */
static uint64_t histogram_of(const struct probe_table *table, struct calltap_profile_entry *entry)
{
	uint64_t at = entry->histogram, number;

	if (at - table->first < table->span)
		return at;
	number = 1 + arch_local_add(&head_of(table)->histograms_used, 1);
	at = table->first + number * sizeof(struct calltap_profile_histogram);
	if (at - table->first >= table->span)
		at = table->first; /* number 0 is for functions that find none left */
	entry->histogram = at;
	return at;
}

/*
 * A store whose address depends on a duration holds up the loads behind it: so a call notes its bucket, and the
 * thread's next call counts it.
 */
static void count_bucket(const struct probe_table *table, uint64_t bucket)
{
	uint64_t *pending = &head_of(table)->pending;

	if (*pending - table->first < table->span)
		arch_local_add((uint64_t *)(table->data + *pending), 1);
	*pending = bucket;
}

static void count_caller(const struct probe_table *table, uint32_t watch, uint64_t address, uint64_t total)
{
	uint32_t callers = calltap_profile_shape(table->ring)->callers,
		 at = (uint32_t)(address * 0x9e3779b97f4a7c15u >> 32);
	struct calltap_profile *head = head_of(table);
	struct calltap_profile_caller *all;

	/* probe_table_attach() has checked the table's size with the number of callers at that time. */
	if (calltap_profile_at_histogram((uint32_t)table->functions, callers, 0) != table->first)
		return;
	all = (struct calltap_profile_caller *)(table->data + calltap_profile_at_caller((uint32_t)table->functions, 0));
	if (head->watched != watch) {
		for (uint32_t i = 0; i < callers; i++)
			all[i] = (struct calltap_profile_caller){0};
		head->uncalled = 0;
		__atomic_store_n(&head->watched, watch,
				 __ATOMIC_RELEASE); /* a reader that sees it finds callers of no other function */
	}
	for (uint32_t i = 0; i < CALLER_PROBES && i < callers; i++) {
		struct calltap_profile_caller *caller = &all[(at + i) & (callers - 1)];

		if (!caller->address)
			caller->address = address;
		if (caller->address == address) {
			arch_local_add(&caller->calls, 1);
			arch_local_add(&caller->total, total);
			return;
		}
	}
	arch_local_add(&head->uncalled, 1);
}

/*
 * With `--time adaptive` a frame's word has the time of its entry, and the callees' ticks on top of it: what an earlier
 * frame has left there is not beyond that time, so that an entry has nothing to store.
 */
static uint64_t within_of(uint64_t slot)
{
	uint64_t within = *arch_within(slot), entered = *arch_entered(slot);

	if (!probe_times)
		return within;
	return within > entered ? within - entered : 0;
}

static void add_within(uint64_t slot, uint64_t ticks)
{
	uint64_t *word = arch_within(slot), within, entered = *arch_entered(slot);

	if (!probe_times) {
		arch_local_add(word, ticks);
		return;
	}
	do
		within = *word;
	while (!arch_local_cas(word, within, (within > entered ? within : entered) + ticks));
}

/* Add a call's ticks to those that its caller has spent in callees. */
static void give_to_caller(const struct probe_stack *stack, uint64_t slot, uint64_t ticks)
{
	uint64_t outer = frames_outer(stack, slot, *arch_link(slot));

	if (outer < stack->end && probe_timed_is_covered(outer))
		add_within(outer, ticks);
}

/* Count a call of ticks, of which `within` were callees'; returns what it adds to the total. */
static uint64_t count(const struct probe_table *table, uint64_t slot, uint32_t id, uint64_t ticks, uint64_t within)
{
	struct calltap_profile_entry *entry = entry_of(table, id);
	uint64_t total = entry->outer == slot ? ticks : 0;

	arch_local_add(&entry->calls, 1);
	arch_local_add(&entry->self, ticks > within ? ticks - within : 0);
	if (ticks > entry->max)
		entry->max = ticks;
	if (ticks || !probe_times)
		count_bucket(table, histogram_of(table, entry) + calltap_profile_bucket(ticks) * sizeof(uint64_t));
	if (entry->outer == slot)
		entry->outer = 0;
	arch_local_add(&entry->total, total);
	return total;
}

/* The ticks that the frame at slot took; false when they are not to be counted. */
static bool measure(const struct probe_table *table, uint64_t slot, uint64_t now, uint64_t *ticks)
{
	uint64_t entered = *arch_entered(slot);

	if (!table->functions || !entered || entered < table->claimed)
		return false;
	*ticks = now - entered;
	if (now < entered) {
		*ticks = 0;
		arch_local_add(&head_of(table)->backward, 1);
	}
	return *ticks >= probe_context.threshold_ticks;
}

void probe_profile_close(struct probe_thread *thread, uint64_t slot, uint32_t id, uint64_t caller)
{
	const struct probe_table *table = thread->table;
	uint64_t now = probe_profile_clock(thread), ticks, total;
	uint32_t watch;

	if (!probe_timed_is_covered(slot))
		return;
	if (!measure(table, slot, now, &ticks) || id >= table->functions) {
		probe_profile_skip(thread->stack, slot);
		return;
	}
	total = count(table, slot, id, ticks, within_of(slot));
	watch = __atomic_load_n(&calltap_profile_shape(table->ring)->watch, __ATOMIC_RELAXED);
	if (watch == id + 1)
		count_caller(table, watch, caller, total);
	give_to_caller(thread->stack, slot, ticks);
}

void probe_profile_skip(const struct probe_stack *stack, uint64_t slot)
{
	if (probe_timed_is_covered(slot))
		give_to_caller(stack, slot, within_of(slot));
}

/*
 * The stub word of the function whose frame was at slot, 0 = not known.  The stack itself tells, unless it was
 * overwritten: this reads only the thread's own stack, or memory that lies above this frame on its stack.
 */
static uint32_t function_at(const struct probe_thread *thread, const struct probe_stack *stack, uint64_t slot)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0), back;

	if (!(stack->kind & STACK_THREAD) && !(here >= stack->lowest && here <= slot && slot < stack->end))
		return 0;
	if (!frames_back(slot, &back) || !probe_region_of(back))
		return 0;
	return frames_word(thread, slot, arch_stub_word(back));
}

void probe_profile_gone(struct probe_thread *thread, const struct probe_stack *stack, uint64_t slot, uint64_t now)
{
	const struct probe_table *table = thread->table;
	uint32_t word, id;
	uint64_t ticks;

	if (!probe_timed_is_covered(slot))
		return;
	word = *arch_link(slot) & FRAME_UNRECORDED ? 0 : function_at(thread, stack, slot);
	id = frames_id(word);
	if (word && id < table->functions && measure(table, slot, now, &ticks)) {
		count(table, slot, id, ticks, within_of(slot));
		arch_local_add(&entry_of(table, id)->unwound, 1);
		give_to_caller(stack, slot, ticks);
	} else {
		if (!word && table->functions && !(*arch_link(slot) & FRAME_UNRECORDED))
			arch_local_add(&head_of(table)->vanished, 1);
		probe_profile_skip(stack, slot);
	}
	*arch_entered(slot) = 0; /* to is_open() the call has ended */
}
