/*
 * Records of a sub-buffer to the columns of a DATA chunk (abi/file.h).
 *
 * Context: host; called by the drainer for every sub-buffer, so the encoder must keep up with all threads of the target
 * together.  The words are live memory of an untrusted process: any value is accepted, each word goes to the file from
 * one read (a word that turns out not to belong to an event is read again, as the head of a record), and sizes come
 * from nwords alone.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/record.h>

#include "writer.h"

#define TIME_BYTES_MAX 10 /* of a LEB128 of 64 bits */

/*
 * A signal handler may interrupt a probe between its clock read and its slot: the probe then stores its older time
 * after the handler's records.  If the handler's TIME record opened a new high half, the older time belongs to the half
 * before: it shows as a leap forward of almost 2^32 ticks.  A leap within LATE_TICKS of 2^32 is taken for a late
 * record, a smaller one for a thread that slept.  LATE_TICKS is about 20 ms of a 3 GHz clock: longer than handlers run,
 * and so short that a sleep is hardly ever taken for a late record.
 */
#define EPOCH_TICKS (INT64_C(1) << 32)
#define LATE_TICKS  (INT64_C(1) << 26)

struct record_encoder {
	unsigned char *payload; /* the chunk's head and the heads; at the end times and extras are copied behind them */
	unsigned char *times;
	uint64_t *extras;
	size_t words_max; /* words that the buffers have room for */
};

/* The columns being written, and the clock at the current record. */
struct columns {
	uint32_t *head;
	unsigned char *time;
	uint64_t *extra;
	uint64_t high;	 /* high half of the clock, in the upper 32 bits */
	uint64_t near;	 /* time of the last record or TIME, to recognise late records */
	uint64_t before; /* time of the last record */
};

#define BIT(kind) (1u << (kind))
#define PLAIN_KINDS                                                                                                    \
	(BIT(CALLTAP_REC_ENTRY) | BIT(CALLTAP_REC_EXIT) | BIT(CALLTAP_REC_UNWIND) | BIT(CALLTAP_REC_TAIL) |            \
	 BIT(CALLTAP_REC_LANDING))

int record_encoder_create(struct record_encoder **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void record_encoder_destroy(struct record_encoder *encoder)
{
	if (!encoder)
		return;
	free(encoder->payload);
	free(encoder->times);
	free(encoder->extras);
	free(encoder);
}

/* Make room for the worst case of nwords, so that the loop need not test for it. */
static int reserve_buffers(struct record_encoder *encoder, size_t nwords)
{
	if (nwords <= encoder->words_max)
		return 0;
	free(encoder->payload);
	free(encoder->times);
	free(encoder->extras);
	encoder->words_max = 0;
	/* A word is a record's head, with a time and an extra at the worst, or two brief records, which have neither.
	 */
	encoder->payload = malloc(sizeof(struct calltap_file_data) + nwords * (4 + TIME_BYTES_MAX + 8));
	encoder->times = malloc(nwords * TIME_BYTES_MAX + 8);
	encoder->extras = malloc(nwords * 8);
	if (!encoder->payload || !encoder->times || !encoder->extras)
		return -ENOMEM;
	encoder->words_max = nwords;
	return 0;
}

/* Write value as LEB128 at to; up to 28 bits without a branch on the length. */
static inline unsigned char *put_leb(unsigned char *to, uint64_t value)
{
	if (__builtin_expect(value < 1u << 28, 1)) {
		uint32_t v = (uint32_t)value;
		uint32_t spread = (v & 0x7f) | (v & 0x3f80) << 1 | (v & 0x1fc000) << 2 | (v & 0xfe00000) << 3;
		unsigned more = (v >= 1u << 7) + (v >= 1u << 14) + (v >= 1u << 21);

		spread |= 0x808080u & ((1u << 8 * more) - 1);
		memcpy(to, &spread, sizeof(spread));
		return to + 1 + more;
	}
	for (; value >= 0x80; value >>= 7)
		*to++ = (unsigned char)(value | 0x80);
	*to++ = (unsigned char)value;
	return to;
}

static inline uint64_t load_word(const uint64_t *word)
{
	/* Pairs with the probes' plain stores: the load gets an empty or a whole word, never half a word. */
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Full time of a record from its low half. */
static inline uint64_t full_ticks(const struct columns *to, uint64_t word)
{
	uint64_t ticks = to->high | (uint32_t)word;

	if (__builtin_expect((int64_t)(ticks - to->near) > EPOCH_TICKS - LATE_TICKS, 0) && to->high)
		ticks -= EPOCH_TICKS;
	return ticks;
}

static inline void put_record(struct columns *to, uint64_t word, uint64_t *last_ticks)
{
	uint64_t ticks = full_ticks(to, word);
	uint64_t delta = ticks - to->before;

	*to->head++ = (uint32_t)(word >> 32);
	to->time = put_leb(to->time, delta << 1 ^ -(delta >> 63));
	to->before = ticks;
	to->near = ticks;
	if (ticks > *last_ticks)
		*last_ticks = ticks;
}

static void set_time(struct columns *to, uint64_t ticks)
{
	if (!ticks)
		return; /* the TIME record's second word is not written yet */
	to->high = ticks >> 32 << 32;
	to->near = ticks;
}

/* Where to go on encoding, with which time. */
struct place {
	size_t word;
	uint64_t ticks;
};

static struct place place_at(size_t word, const struct columns *at)
{
	/* The high half must be that of the last TIME, and the low half no later than the next record's. */
	return (struct place){word, at->near >> 32 == at->high >> 32 ? at->near : at->high};
}

size_t record_skip_older(const uint64_t *words, size_t nwords, uint64_t from_ticks, uint64_t *head_ticks)
{
	struct columns at = {.high = *head_ticks >> 32 << 32, .near = *head_ticks};
	struct place run = {.word = SIZE_MAX}; /* the first of the brief records since the last time */
	size_t i = 0;

	while (i < nwords) {
		uint64_t head = load_word(&words[i]);
		unsigned kind = calltap_record_kind(head), size = calltap_record_words(head);

		if (calltap_record_has_brief(head)) {
			size = 1;
			if (at.near >= from_ticks)
				break;
			if (run.word == SIZE_MAX)
				run = place_at(i, &at);
		} else if (kind == CALLTAP_REC_TIME) {
			set_time(&at, i + 1 < nwords ? load_word(&words[i + 1]) : 0);
		} else if (calltap_record_is_filed(kind)) {
			uint64_t ticks = full_ticks(&at, head);

			if (ticks >= from_ticks)
				break;
			at.near = ticks;
			run.word = SIZE_MAX;
		}
		i += size;
	}
	/* Brief records right before a record that is not older may be as young. */
	if (i >= nwords || run.word == SIZE_MAX)
		run = place_at(i < nwords ? i : nwords, &at);
	*head_ticks = run.ticks;
	return run.word;
}

/*
 * Put the words behind an EVENT's head; word is the first of them.  Returns the place where the next record may be.  A
 * word that has a kind is a head; then the event is not whole (a program thread wrote over it, ring.md), *whole is
 * false, and nothing was put.
 */
static const uint64_t *put_event(struct columns *to, uint64_t head, const uint64_t *word, const uint64_t *end,
				 bool *whole)
{
	uint32_t words = calltap_event_words(calltap_record_id(head)), count = words - 1;
	uint64_t *extra = to->extra;

	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* with the load of the head; pairs with ring_put() */
	*whole = words && count <= (size_t)(end - word);
	for (uint32_t i = 0; *whole && i < count; i++) {
		extra[i] = load_word(&word[i]);
		if (calltap_record_kind(extra[i])) {
			*whole = false;
			return word + i;
		}
	}
	if (!*whole)
		return word;
	to->extra += count;
	return word + count;
}

static void take_time(struct columns *to, uint64_t ticks, uint32_t cpu, struct encode_result *result)
{
	set_time(to, ticks);
	if (!ticks || !cpu)
		return;
	result->cpu_count += result->cpu_count < ENCODE_CPUS;
	result->cpus[result->cpu_count - 1].cpu = cpu;
	result->cpus[result->cpu_count - 1].ticks = ticks;
}

/*
 * Take a head that is no plain record of one word, with the words behind it; returns the place where the next record
 * may be.  *whole: the record is one for the file, and the words behind its head were put.
 */
static const uint64_t *put_behind(struct columns *to, uint64_t head, const uint64_t *word, const uint64_t *end,
				  struct encode_result *result, uint64_t *holes, bool *whole)
{
	unsigned kind = calltap_record_kind(head);
	uint64_t extra = 0;

	*whole = false;
	if (kind == CALLTAP_REC_EVENT) {
		word = put_event(to, head, word, end, whole);
		result->events += *whole;
		*holes += !*whole;
		return word;
	}
	if (calltap_record_words(head) == 1) {
		++*holes; /* an empty word, or an unknown kind */
		return word;
	}
	if (word < end)
		extra = load_word(word++);
	if (kind == CALLTAP_REC_TIME)
		take_time(to, extra, calltap_record_id(head), result);
	*whole = calltap_record_is_filed(kind); /* OPEN is for core/open.c */
	if (!*whole)
		return word;
	if (kind == CALLTAP_REC_LOST)
		result->lost += extra;
	else if (kind == CALLTAP_REC_WAIT)
		result->wait_ticks += extra;
	*to->extra++ = extra;
	return word;
}

/* Put the brief records of a word, without a branch on what the halves are; returns how many holes the word has. */
static inline uint64_t put_brief(struct columns *to, uint64_t word)
{
	uint32_t early = (uint32_t)word, late = (uint32_t)(word >> 32);

	/* The second store is over the first one where there is no early record.  Both are in room that is reserved. */
	*to->head = early;
	to->head += calltap_record_is_brief(early) & (early != CALLTAP_RECORD_PAD);
	*to->head = late;
	to->head += late && late != CALLTAP_RECORD_PAD;
	return !calltap_record_is_brief(early);
}

/* Words of brief records that are taken at once. */
#define RUN_WORDS 4
typedef int32_t halves __attribute__((vector_size(16)));
_Static_assert(2 * sizeof(halves) == RUN_WORDS * sizeof(uint64_t), "a run is two vectors");

/* -1 in each half that is a brief record and no PAD, else 0: as signed numbers these are the ones right below -1. */
static inline halves are_brief(halves words)
{
	const int32_t lowest = (int32_t)((uint32_t)CALLTAP_REC_BRIEF_ENTRY << CALLTAP_RECORD_ID_BITS);

	return (words >= lowest) & (words < -1);
}

/*
 * Put the words from here on as they are, RUN_WORDS at a time, while all their halves are brief records; returns the
 * first word that is left.  Most words of a program with many small functions are put so.
 */
static inline const uint64_t *put_run(struct columns *to, const uint64_t *word, const uint64_t *end)
{
	for (; end - word >= RUN_WORDS; word += RUN_WORDS) {
		halves early, late;
		uint64_t all[2];

		memcpy(&early, word, sizeof(early));
		memcpy(&late, word + RUN_WORDS / 2, sizeof(late));
		/* The compiler may not read the program's memory again: what is put is what was looked at. */
		__asm__ volatile("" ::: "memory");
		memcpy(all, &(const halves[]){are_brief(early) & are_brief(late)}, sizeof(all));
		if (~(all[0] & all[1]))
			break;
		memcpy(to->head, &early, sizeof(early));
		memcpy(to->head + 4, &late, sizeof(late));
		to->head += 2 * RUN_WORDS;
	}
	return word;
}

/* Put all records of [word, end) into the columns; this loop has to be fast. */
static void encode_words(struct columns *to, const uint64_t *word, const uint64_t *end, struct encode_result *result)
{
	uint64_t last_ticks = 0;
	uint64_t holes = 0, holes_seen = 0;

	while (word < end) {
		uint64_t head = load_word(word++);

		if (!(PLAIN_KINDS >> calltap_record_kind(head) & 1)) {
			const uint32_t *before = to->head;
			bool whole;

			if (calltap_record_has_brief(head)) {
				holes_seen += put_brief(to, head);
				holes = to->head > before ? holes_seen : holes;
				before = to->head;
				word = put_run(to, word, end);
				holes = to->head > before ? holes_seen : holes;
				continue;
			}
			word = put_behind(to, head, word, end, result, &holes_seen, &whole);
			if (!whole)
				continue;
		}
		holes = holes_seen;
		put_record(to, head, &last_ticks);
	}
	result->holes = holes;
	result->last_ticks = last_ticks;
}

/*
 * The first difference was taken to head_ticks, because the first record's time was not known yet: make it 0 and move
 * the base instead.  Returns the new beginning of the times.
 */
static unsigned char *rebase_times(unsigned char *times, uint64_t head_ticks, uint64_t *base_ticks)
{
	uint64_t zigzag = 0;
	unsigned shift = 0;

	for (; *times & 0x80; shift += 7)
		zigzag |= (uint64_t)(*times++ & 0x7f) << shift;
	zigzag |= (uint64_t)*times << shift;
	*base_ticks = head_ticks + (zigzag >> 1 ^ -(zigzag & 1));
	*times = 0;
	return times;
}

int record_encode(struct record_encoder *encoder, uint32_t thread, uint64_t number, uint64_t head_ticks,
		  const uint64_t *words, size_t nwords, const void **payload, size_t *size,
		  struct encode_result *result)
{
	struct calltap_file_data data = {.thread = thread, .number = number};
	struct columns to;
	unsigned char *tail, *times;
	int err;

	memset(result, 0, sizeof(*result));
	*payload = NULL;
	*size = 0;
	if (!nwords)
		return 0;
	if (nwords > CALLTAP_CHUNK_RAW_MAX / sizeof(*words))
		return -E2BIG;
	err = reserve_buffers(encoder, nwords);
	if (err)
		return err;
	to = (struct columns){.head = (uint32_t *)(void *)(encoder->payload + sizeof(data)),
			      .time = encoder->times,
			      .extra = encoder->extras,
			      .high = head_ticks >> 32 << 32,
			      .near = head_ticks,
			      .before = head_ticks};
	encode_words(&to, words, words + nwords, result);

	tail = (unsigned char *)to.head;
	data.count = (uint32_t)((tail - encoder->payload - sizeof(data)) / sizeof(uint32_t));
	if (!data.count)
		return 0;
	data.base_ticks = head_ticks;
	times = encoder->times;
	/* Of brief records in front nothing is known but that they are younger than head_ticks. */
	if (calltap_record_is_brief(((const uint32_t *)(const void *)(encoder->payload + sizeof(data)))[0]))
		result->last_ticks = result->last_ticks > head_ticks ? result->last_ticks : head_ticks;
	else
		times = rebase_times(times, head_ticks, &data.base_ticks);
	data.last_ticks = result->last_ticks;
	data.events = (uint32_t)result->events;
	data.times_size = (uint32_t)(to.time - times);
	data.extras_size = (uint32_t)((char *)to.extra - (char *)encoder->extras);
	memcpy(tail, times, data.times_size);
	memcpy(tail + data.times_size, encoder->extras, data.extras_size);
	memcpy(encoder->payload, &data, sizeof(data));
	result->records = data.count;
	*payload = encoder->payload;
	*size = (size_t)(tail + data.times_size + data.extras_size - encoder->payload);
	return *size > CALLTAP_CHUNK_RAW_MAX ? -E2BIG : 0;
}
