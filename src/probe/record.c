/*
 * Records off the fast path: take slots in the thread's ring, open the next sub-buffer when this one is full, and
 * record the clock's high half when it has moved on, and the CPU when the thread has.
 *
 * Called by graph.c, instances.c, settle.c, stacks.c and unwound.c on the program's thread.  Context: probe, slow path:
 * raw system calls when a sub-buffer ends; bounded loops.
 */
#include <base/sys.h>
#include <probe/open.h>
#include <probe/thread.h>

/* Open a sub-buffer, unless a signal handler has opened one meanwhile.  True: try to take slots again. */
static bool open_next(struct ring_writer *writer, unsigned words)
{
	return writer->ring && (ring_is_open(writer, words) || ring_open_next(writer, &probe_context.shared));
}

/* As open_next(), with signals blocked; in another ring if the thread's has retired. */
static bool open_next_or_move(unsigned set, struct ring_writer *writer, unsigned words)
{
	bool lost;

	if (!writer->ring)
		return false;
	if (ring_is_open(writer, words))
		return true;
	if (!(writer->lost | writer->waited) && __atomic_load_n(&writer->ring->retired, __ATOMIC_RELAXED))
		probe_move_on(set, writer);
	lost = writer->lost != 0;
	if (!ring_open_next(writer, &probe_context.shared))
		return false;
	if (!set && writer->ring->mode == CALLTAP_MODE_OVERWRITE)
		probe_open_tell(probe_self());
	else if (lost || (!set && probe_self()->continues))
		probe_open_count(probe_self(), set);
	return true;
}

/* As open_next(), where signals cannot be blocked: a signal handler that needs a sub-buffer meanwhile loses its record.
 */
static bool open_quietly(struct ring_writer *writer, unsigned words)
{
	bool open;

	if (__atomic_exchange_n(&probe_self()->opening, 1, __ATOMIC_RELAXED))
		return false;
	open = open_next(writer, words);
	__atomic_signal_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&probe_self()->opening, 0, __ATOMIC_RELAXED);
	return open;
}

/*
 * No ring: a handler has forked, and this is the child, whose writers were wiped.  Not enabled: recording has ended
 * since the caller looked, so the record is behind its end.
 */
static void count_lost(struct ring_writer *writer)
{
	struct calltap_ring *ring = writer->ring;

	if (!ring || !__atomic_load_n(&probe_context.enabled, __ATOMIC_SEQ_CST))
		return;
	arch_local_add(&writer->lost, 1);
	arch_local_add(&ring->lost, 1);
}

/* Take slots in the open sub-buffer or the next one; NULL = the record is lost, and counted, or recording has ended. */
static uint64_t *take(unsigned set, struct ring_writer *writer, unsigned words)
{
	uint64_t *slot = ring_take(writer, words);
	uint64_t signals;

	while (!slot) {
		bool open = false;

		if (writer->lost && !ring_has_room(writer)) {
			/* The ring is still as full as it was when the last record was lost. */
		} else if (probe_calls_begin(&signals)) {
			open = open_next_or_move(set, writer, words);
			/* With signals still blocked: no signal handler's record may come between OPEN records (open.h)
			 * and this one. */
			slot = open ? ring_take(writer, words) : NULL;
			probe_calls_end(&signals);
		} else {
			open = open_quietly(writer, words);
		}
		if (!open) {
			count_lost(writer);
			return NULL;
		}
		if (!slot)
			slot = ring_take(writer, words);
	}
	return slot;
}

/*
 * Does a TIME record have to come before a record of now, since the clock's high half has moved on, or the thread has
 * moved to another CPU?  A sub-buffer that is opened for the record tells both by itself.
 */
static bool wants_mark(const struct ring_writer *writer, uint64_t now)
{
	return writer->span && (writer->time_hi != now >> 32 || ring_has_moved(writer, &probe_context.shared));
}

/* Record the full clock and the CPU; false when there is no room. */
static bool mark_time(unsigned set, struct ring_writer *writer)
{
	uint64_t *slot = take(set, writer, 2), now;
	uint32_t cpu;

	if (!slot)
		return false;
	cpu = ring_cpu_noted(&probe_context.shared);
	now = arch_clock();
	ring_put2(slot, calltap_record_make(CALLTAP_REC_TIME, cpu, (uint32_t)now), now);
	writer->time_hi = (uint32_t)(now >> 32);
	/* A handler may have opened another sub-buffer meanwhile: then that one tells its CPU once more than needed. */
	ring_tell_cpu(writer, cpu);
	return true;
}

/* Give slots back that were taken last and not written; they stay empty if a signal handler has taken some since. */
static void give_back(struct ring_writer *writer, const uint64_t *slot, unsigned words)
{
	if (!__atomic_load_n(slot, __ATOMIC_RELAXED))
		(void)arch_local_cas(&writer->cursor, (uint64_t)(slot + words), (uint64_t)slot);
}

/* Slots for a record of now, behind whatever tells the clock's high half; NULL = lost, and counted. */
static uint64_t *place(unsigned set, struct ring_writer *writer, unsigned words, uint32_t *time_low)
{
	for (;;) {
		uint64_t before = __atomic_load_n(&writer->cursor, __ATOMIC_RELAXED), now = arch_clock(), *slot;

		*time_low = (uint32_t)now;
		if (wants_mark(writer, now) && !mark_time(set, writer))
			return NULL;
		slot = take(set, writer, words);
		if (!slot)
			return NULL;
		/*
		 * A new sub-buffer, which the thread may have waited for, or a handler's TIME record may have moved
		 * the high half meanwhile: the slot may lie before or after that.  Where there are brief records, no
		 * record of a handler's may lie between: their bounds rest on that (doc/design/clock.md).
		 */
		if (writer->time_hi == now >> 32 && (!probe_times || (uint64_t)slot == ring_whole(before)))
			return slot;
		give_back(writer, slot, words);
	}
}

static bool record(unsigned set, struct ring_writer *writer, enum calltap_record_kind kind, uint32_t id, unsigned words,
		   uint64_t second)
{
	uint32_t now;
	uint64_t *slot = place(set, writer, words, &now);

	if (!slot)
		return false;
	if (words == 2)
		ring_put2(slot, calltap_record_make(kind, id, now), second);
	else
		ring_put(slot, calltap_record_make(kind, id, now));
	return true;
}

static bool record_event(unsigned set, struct ring_writer *writer, uint32_t type, const uint64_t *words, uint32_t count)
{
	uint32_t now;
	uint64_t *slot = place(set, writer, 1 + count, &now);

	if (!slot)
		return false;
	ring_put_all(slot, calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(type, 1 + count), now), words,
		     count);
	return true;
}

bool probe_has_room(const struct probe_thread *thread)
{
	return !thread->writer->lost || ring_has_room(thread->writer);
}

bool probe_record(struct probe_thread *thread, enum calltap_record_kind kind, uint32_t id, unsigned words,
		  uint64_t second)
{
	return !probe_context.profile && record(0, thread->writer, kind, id, words, second);
}

void probe_lose_exit(struct probe_thread *thread)
{
	/* A handler may have written the LOST record since: another one begins with what is lost next. */
	if (!probe_context.profile && thread->writer->lost)
		count_lost(thread->writer);
}

bool probe_set_record(struct probe_thread *thread, unsigned set, enum calltap_record_kind kind, uint32_t id,
		      unsigned words, uint64_t second)
{
	return record(set, thread->further[set - 1].writer, kind, id, words, second);
}

bool probe_event(struct probe_thread *thread, unsigned set, uint32_t type, const uint64_t *words, uint32_t count)
{
	struct ring_writer *writer = set ? thread->further[set - 1].writer : thread->writer;

	return count < CALLTAP_EVENT_WORDS_MAX && !(!set && probe_context.profile) &&
	       record_event(set, writer, type, words, count);
}

#define TAILS_MAX 7u /* of one frame, which are taken back with its ENTRY */

/*
 * The ENTRY of the frame that goes on as function id, if that and the TAILs of the frame are the last records; NULL:
 * they are not.  A TAIL behind an ENTRY is always that frame's.
 */
static uint64_t *last_entry(const struct ring_writer *writer, uint64_t cursor, uint32_t id)
{
	uint64_t *at = (uint64_t *)cursor - 1;

	/* The open sub-buffer must hold the records, and the cursor must not be behind its end. */
	for (unsigned tails = 0; (uint64_t)at - writer->base < writer->span; tails++, at--) {
		const uint64_t word = *at;
		const unsigned kind = calltap_record_kind(word);

		if (!tails && calltap_record_id(word) != id)
			return NULL;
		if (kind == CALLTAP_REC_ENTRY)
			return at;
		if (kind != CALLTAP_REC_TAIL || tails == TAILS_MAX)
			return NULL;
	}
	return NULL;
}

bool probe_take_back(struct ring_writer *writer, uint32_t id, uint64_t now, uint64_t ticks)
{
	uint64_t cursor = writer->cursor, *entry = last_entry(writer, cursor, id), words[1 + TAILS_MAX];
	uint32_t count = 0;

	if (!entry || writer->time_hi != now >> 32 || (uint32_t)now - (uint32_t)*entry >= ticks)
		return false;
	/*
	 * The places are emptied first, from the last on: between the swap and a later store a handler could have taken
	 * them, and a TAIL never stands without its ENTRY.
	 */
	for (uint64_t *at = (uint64_t *)cursor - 1; at >= entry; at--) {
		words[count++] = *at;
		ring_put(at, 0);
	}
	if (arch_local_cas(&writer->cursor, cursor, (uint64_t)entry))
		return true;
	while (count)
		ring_put(entry++, words[--count]);
	return false;
}
