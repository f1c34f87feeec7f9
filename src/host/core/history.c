/*
 * From rings to a trace file while the rings are written to (history.h).
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/record.h>
#include <host/trace/writer.h>

#include "calls.h"
#include "history.h"

#define BUDGET	   ((size_t)256 << 20)
#define ABSENT_MAX (1u << 16) /* sub-buffers that a core file which was cut short may lack */
#define WORDS(at)  ((const uint64_t *)(const void *)((at) + 1))

/* A copy of those sub-buffers of a ring that were whole, newest first. */
struct history_ring {
	uint32_t process, sub_size, count;
	uint32_t owner; /* of the ring when it was copied */
	uint64_t forked_ticks;
	char name[16]; /* of the ring when it was copied */
	char *subs;
};

int history_create(struct history *history, struct trace_writer *writer)
{
	int ret;

	*history = (struct history){.writer = writer, .budget = BUDGET, .limit = UINT64_MAX};
	ret = record_encoder_create(&history->encoder);
	return ret ? ret : record_encoder_create(&history->call_encoder);
}

static void forget_copies(struct history *history)
{
	for (uint32_t i = 0; i < history->ring_count; i++)
		free(history->rings[i].subs);
	history->ring_count = 0;
	history->copied = 0;
}

void history_destroy(struct history *history)
{
	forget_copies(history);
	free(history->rings);
	record_encoder_destroy(history->encoder);
	record_encoder_destroy(history->call_encoder);
}

int history_read_shared(void *arg, uint64_t at, void *to, size_t size)
{
	const uint64_t *from = (const void *)((const char *)arg + at);
	uint64_t *words = to;

	/*
	 * Acquire, all: what was read before is older than this, what is read after is younger.  So a record whose
	 * head is there is whole: its head is read before the words behind it, and written after them (ring_put()).
	 */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (size_t i = 0; i < size / sizeof(*words); i++)
		words[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
	return 0;
}

/* The index of the last record's head, which may be half a word; nwords if there is none. */
static size_t last_head(const uint64_t *words, size_t nwords, bool *half)
{
	for (size_t i = nwords; i-- > 0;) {
		*half = !calltap_record_kind(words[i]);
		if (!*half || calltap_record_has_brief(words[i]))
			return i;
	}
	return nwords;
}

/*
 * Cut off the records that were written between two reads of a sub-buffer: those behind `last`, the last record of the
 * first read.  So a record is kept only if all records before it are whole: each was written before the first read
 * ended.  The words of a record whose head is not written yet have no kind.  half: the first read found no second brief
 * record in the last head's word.
 */
static void cut_new_records(uint64_t *words, size_t nwords, size_t last, bool half)
{
	size_t i = 0;

	while (last < nwords && i <= last) {
		/* A word behind a head is passed over; it may look like half a word with a brief record. */
		if (i == last && half && calltap_record_has_brief(words[i]))
			words[i] = (uint32_t)words[i];
		i += calltap_record_words(words[i]);
	}
	if (i < nwords)
		memset(words + i, 0, (nwords - i) * sizeof(*words));
}

/* Copy sub-buffer `number`; 1: it is whole, 0: it is not (any more), -1: it cannot be read. */
static int copy_sub(const struct history_arena *arena, uint64_t at, uint64_t number, bool open,
		    struct calltap_subbuf *to)
{
	size_t nwords = (arena->sub_size - sizeof(*to)) / sizeof(uint64_t), last = 0;
	bool half = false;
	uint64_t before, after;

	if (arena->read(arena->arg, at, &before, sizeof(before)))
		return -1;
	if (before != number + 1)
		return 0;
	for (int pass = 0; pass < (open ? 2 : 1); pass++) {
		if (pass)
			last = last_head(WORDS(to), nwords, &half);
		if (arena->read(arena->arg, at, to, arena->sub_size))
			return -1;
	}
	if (open)
		cut_new_records((uint64_t *)(to + 1), nwords, last, half);
	/* The sub-buffer's writer clears the number before it touches anything else: A in ring_open_next(). */
	return !arena->read(arena->arg, at, &after, sizeof(after)) && after == number + 1 && to->number == after;
}

static int new_ring(struct history *history, struct history_ring **out)
{
	if (history->ring_count == history->ring_room) {
		uint32_t room = history->ring_room ? history->ring_room * 2 : 16;
		struct history_ring *rings = reallocarray(history->rings, room, sizeof(*rings));

		if (!rings)
			return -ENOMEM;
		history->rings = rings;
		history->ring_room = room;
	}
	*out = &history->rings[history->ring_count];
	return 0;
}

/*
 * Make room for one more sub-buffer.  A ring's size may be a lie: so the room grows with the sub-buffers that were
 * found.
 */
static int reserve_sub(struct history_ring *copy, uint32_t *room)
{
	uint32_t wanted = *room ? *room * 2 : 4;
	char *subs;

	if (copy->count < *room)
		return 0;
	subs = reallocarray(copy->subs, wanted, copy->sub_size);
	if (!subs)
		return -ENOMEM;
	copy->subs = subs;
	*room = wanted;
	return 0;
}

static int copy_subs(struct history *history, const struct history_arena *arena, uint64_t at, uint64_t opened,
		     struct history_ring *copy)
{
	uint64_t first = opened > arena->sub_count ? opened - arena->sub_count : 0;
	uint32_t room = 0;

	history->older += first;
	/* Newest first: the writer takes the oldest back meanwhile, so the whole ones have no gap. */
	for (uint64_t number = opened; number-- > first && history->absent < ABSENT_MAX;) {
		uint64_t sub = at + CALLTAP_PAGE + number % arena->sub_count * arena->sub_size;
		int whole;

		if (history->copied_in_all + arena->sub_size > history->limit)
			return 0;
		if (reserve_sub(copy, &room))
			return -ENOMEM;
		whole = copy_sub(arena, sub, number, number == opened - 1,
				 (void *)(copy->subs + (size_t)copy->count * arena->sub_size));
		history->absent += whole < 0;
		if (whole <= 0) {
			history->overwritten++;
			continue;
		}
		copy->count++;
		history->copied += arena->sub_size;
		history->copied_in_all += arena->sub_size;
	}
	return 0;
}

static int copy_ring(struct history *history, const struct history_arena *arena, uint32_t index)
{
	uint64_t at = CALLTAP_PAGE + index * arena->ring_stride;
	struct history_ring *copy;
	struct calltap_ring ring;
	int ret;

	if (arena->read(arena->arg, at, &ring, sizeof(ring)) || !ring.opened)
		return 0;
	ret = new_ring(history, &copy);
	if (ret)
		return ret;
	*copy = (struct history_ring){.process = arena->process,
				      .sub_size = arena->sub_size,
				      .owner = ring.owner,
				      .forked_ticks = arena->forked_ticks};
	memcpy(copy->name, ring.comm, sizeof(copy->name) - 1);
	history->ring_count++;
	return copy_subs(history, arena, at, ring.opened, copy);
}

int history_copy(struct history *history, const struct history_arena *arena, uint32_t *ring)
{
	int ret = 0;

	while (*ring < arena->ring_count && history->copied < history->budget && !ret) {
		ret = copy_ring(history, arena, *ring);
		(*ring)++;
	}
	return ret;
}

/* A thread in the copy of a ring: its sub-buffers follow each other. */
struct thread_part {
	const struct history_ring *ring;
	uint32_t first, end;
	struct calltap_file_thread row;
	uint64_t next_number; /* of the thread's next DATA chunk */
	uint64_t from_ticks;  /* of the thread's first record */
	bool begins_late;     /* older records were overwritten, or are left out */
};

/* The sub-buffer at an index by age, from the oldest. */
static struct calltap_subbuf *sub_of(const struct history_ring *ring, uint32_t index)
{
	return (void *)(ring->subs + (size_t)(ring->count - 1 - index) * ring->sub_size);
}

static int encode_sub(struct history *history, struct thread_part *part, const struct calltap_subbuf *sub,
		      const void **payload, size_t *size, struct encode_result *encoded)
{
	size_t nwords = (part->ring->sub_size - sizeof(*sub)) / sizeof(uint64_t), skip;
	uint64_t ticks = sub->ticks;

	skip = history->from_ticks ? record_skip_older(WORDS(sub), nwords, history->from_ticks, &ticks) : 0;
	part->begins_late |= skip > 0;
	return record_encode(history->encoder, part->row.thread, part->next_number, ticks, WORDS(sub) + skip,
			     nwords - skip, payload, size, encoded);
}

static int write_sub(struct history *history, struct thread_part *part, const struct calltap_subbuf *sub)
{
	struct encode_result encoded;
	const void *payload;
	size_t size;
	int ret = encode_sub(history, part, sub, &payload, &size, &encoded);

	if (ret || !size)
		return ret;
	if (!part->from_ticks)
		part->from_ticks = ((const struct calltap_file_data *)payload)->base_ticks;
	part->next_number++;
	part->row.lost += encoded.lost;
	part->row.wait_ticks += encoded.wait_ticks;
	part->row.end_ticks = encoded.last_ticks;
	history->records += encoded.records;
	history->lost += encoded.lost;
	history->wait_ticks += encoded.wait_ticks;
	history->holes += encoded.holes;
	if (encoded.last_ticks > history->last_ticks)
		history->last_ticks = encoded.last_ticks;
	ret = trace_writer_chunk(history->writer, CALLTAP_CHUNK_DATA, payload, size);
	return ret ? ret : trace_writer_cpus(history->writer, part->row.thread, sub, &encoded);
}

static int describe_part(struct history *history, struct thread_part *part)
{
	const struct calltap_subbuf *newest = sub_of(part->ring, part->end - 1);
	bool holds = newest->owner == part->ring->owner;
	int ret = 0;

	memcpy(part->row.name, holds && part->ring->name[0] ? part->ring->name : newest->comm,
	       sizeof(part->row.name) - 1);
	part->row.ended = !holds;
	if (history->thread)
		ret = history->thread(history->arg, &part->row, holds);
	return ret ? ret : trace_writer_chunk(history->writer, CALLTAP_CHUNK_THREAD, &part->row, sizeof(part->row));
}

static int write_subs(struct history *history, struct thread_part *part)
{
	const struct calltap_subbuf *before = NULL;
	int ret = 0;

	for (uint32_t i = part->first; i < part->end && !ret; i++) {
		const struct calltap_subbuf *sub = sub_of(part->ring, i);

		/*
		 * Readers see a gap where a number is missing in between; sub-buffers missing at the start were
		 * overwritten.
		 */
		if (before && part->next_number && sub->number != before->number + 1)
			part->next_number++;
		before = sub;
		ret = write_sub(history, part, sub);
	}
	return ret;
}

/* The frames that a forked child has from its parent are its own since the fork: what was before is in the parent's. */
static void begin_with_child(struct open_calls *open, uint64_t forked_ticks)
{
	uint64_t earliest = forked_ticks < open->first_ticks ? forked_ticks : open->first_ticks;

	for (size_t i = 0; i < open->count; i++)
		if (open->list[i].entry_ticks < earliest)
			open->list[i].entry_ticks = earliest;
}

/* Find the calls that were open when the kept records begin. */
static int find_open(struct history *history, const struct thread_part *part, struct open_calls *open)
{
	struct calltap_subbuf *oldest = sub_of(part->ring, part->first), *sub = oldest;
	size_t nwords = (part->ring->sub_size - sizeof(*sub)) / sizeof(uint64_t), size;
	struct encode_result encoded;
	const void *payload;
	int ret;

	open_calls_fit((uint64_t *)(oldest + 1), nwords);
	ret = open_calls_begin(open, WORDS(oldest), nwords, history->from_ticks);
	for (uint32_t i = part->first; open_calls_wants(open) && i < part->end && !ret; i++) {
		if (i > part->first && sub_of(part->ring, i)->number != sub->number + 1)
			open_calls_gap(open);
		sub = sub_of(part->ring, i);
		ret = record_encode(history->encoder, 0, 0, sub->ticks, WORDS(sub), nwords, &payload, &size, &encoded);
		if (!ret && size)
			ret = open_calls_see(open, payload, size);
	}
	open_calls_end(open);
	begin_with_child(open, part->ring->forked_ticks);
	return ret;
}

static int see_calls(struct history *history, struct thread_part *part, struct calls_thread *thread)
{
	struct encode_result encoded;
	const void *payload;
	size_t size;
	int ret = 0;

	if (!calls_any(history, part->row.process, part->row.tid))
		return 0;
	for (uint32_t i = part->first; i < part->end && !ret; i++) {
		ret = encode_sub(history, part, sub_of(part->ring, i), &payload, &size, &encoded);
		if (!ret && size)
			calls_see(history, thread, payload, size);
	}
	return ret;
}

/* Write the thread's records, and the records that calls known otherwise lack. */
static int write_with_calls(struct history *history, struct thread_part *part)
{
	struct open_calls open;
	struct calls_thread thread = {.process = part->row.process, .tid = part->row.tid, .told = &open};
	int ret = find_open(history, part, &open);

	if (!ret)
		ret = see_calls(history, part, &thread);
	if (!ret)
		ret = calls_write_before(history, &thread, part->row.thread, &part->next_number);
	if (!ret)
		ret = write_subs(history, part);
	if (!ret)
		ret = calls_write_after(history, &thread, part->row.thread, &part->next_number);
	open_calls_destroy(&open);
	return ret;
}

/* True if the thread's oldest sub-buffer that is left is not its first. */
static bool begins_late(const struct thread_part *part)
{
	const struct calltap_subbuf *oldest = sub_of(part->ring, part->first);

	if (oldest->owner & CALLTAP_OWNER_MOVED || !part->first)
		return oldest->owner & CALLTAP_OWNER_MOVED || oldest->number != 1;
	return oldest->number != sub_of(part->ring, part->first - 1)->number + 1;
}

static int write_part(struct history *history, struct thread_part *part)
{
	const struct calltap_subbuf *oldest = sub_of(part->ring, part->first);
	struct calltap_file_history history_row = {.thread = history->next_thread};
	int ret;

	part->row = (struct calltap_file_thread){
		.thread = history->next_thread,
		.process = part->ring->process,
		.tid = oldest->tid,
		.start_ticks = oldest->ticks,
	};
	part->begins_late = begins_late(part);
	ret = write_with_calls(history, part);
	if (ret || !part->next_number)
		return ret;
	history->next_thread++;
	history->threads++;
	ret = describe_part(history, part);
	history_row.from_ticks = part->from_ticks;
	if (!ret && part->begins_late)
		ret = trace_writer_chunk(history->writer, CALLTAP_CHUNK_HISTORY, &history_row, sizeof(history_row));
	return ret;
}

static int write_ring(struct history *history, const struct history_ring *ring)
{
	struct thread_part part = {.ring = ring};
	int ret = 0;

	while (part.end < ring->count && !ret) {
		part = (struct thread_part){.ring = ring, .first = part.end, .end = part.end};
		while (part.end < ring->count && sub_of(ring, part.end)->owner == sub_of(ring, part.first)->owner)
			part.end++;
		ret = write_part(history, &part);
	}
	return ret;
}

int history_write(struct history *history)
{
	int ret = 0;

	for (uint32_t i = 0; i < history->ring_count && !ret; i++)
		ret = write_ring(history, &history->rings[i]);
	forget_copies(history);
	return ret ? ret : trace_writer_flush(history->writer);
}
