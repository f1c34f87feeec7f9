/*
 * Records to columns and back: every kind, holes, clock wraps, late records.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "host/trace/decode.h"

#define HIGH(n) ((uint64_t)(n) << 32)

struct encoded {
	struct record_encoder *encoder;
	struct encode_result result;
	const void *payload;
	size_t size;
};

static int setup(void **state)
{
	struct encoded *encoded = calloc(1, sizeof(*encoded));

	*state = encoded;
	return record_encoder_create(&encoded->encoder);
}

static int teardown(void **state)
{
	struct encoded *encoded = *state;

	record_encoder_destroy(encoded->encoder);
	free(encoded);
	return 0;
}

static void encode(struct encoded *to, uint64_t head_ticks, const uint64_t *words, size_t count)
{
	assert_int_equal(
		record_encode(to->encoder, 3, 9, head_ticks, words, count, &to->payload, &to->size, &to->result), 0);
}

static void expect(const struct encoded *encoded, const struct say *says, size_t count)
{
	struct record_decoder decoder;
	struct record record;
	struct calltap_file_data data;
	uint64_t last = 0;

	assert_int_equal(encoded->result.records, count);
	memcpy(&data, encoded->payload, sizeof(data));
	assert_int_equal(data.thread, 3);
	assert_int_equal(data.number, 9);
	assert_int_equal(data.count, count);
	assert_int_equal(data.base_ticks, says[0].ticks);
	assert_int_equal(record_decoder_init(&decoder, encoded->payload, encoded->size), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(record_decoder_next(&decoder, &record), 1);
		assert_int_equal(record.kind, says[i].kind);
		assert_int_equal(record.id, says[i].id);
		assert_int_equal(record.ticks, says[i].ticks);
		assert_int_equal(record.extra, says[i].extra);
		last = record.ticks > last ? record.ticks : last;
	}
	assert_int_equal(record_decoder_next(&decoder, &record), 0);
	assert_int_equal(data.last_ticks, last);
	assert_int_equal(encoded->result.last_ticks, last);
}

static uint64_t word(enum calltap_record_kind kind, uint32_t id, uint64_t ticks)
{
	return calltap_record_make(kind, id, (uint32_t)ticks);
}

static void every_kind(void **state)
{
	const uint64_t words[] = {word(CALLTAP_REC_ENTRY, CALLTAP_RECORD_ID_MAX, 10),
				  word(CALLTAP_REC_CALL, 4, 20),
				  0xdeadbeef,
				  word(CALLTAP_REC_TAIL, 4, 30),
				  word(CALLTAP_REC_STACK, 0, 31),
				  0x7fff0000,
				  word(CALLTAP_REC_LOST, 0, 32),
				  5,
				  word(CALLTAP_REC_WAIT, 0, 33),
				  600,
				  word(CALLTAP_REC_LOST, 0, 34),
				  6,
				  word(CALLTAP_REC_UNWIND, 2, 35),
				  word(CALLTAP_REC_EXIT, 1, 36)};
	const struct say says[] = {{CALLTAP_REC_ENTRY, CALLTAP_RECORD_ID_MAX, 10, 0},
				   {CALLTAP_REC_CALL, 4, 20, 0xdeadbeef},
				   {CALLTAP_REC_TAIL, 4, 30, 0},
				   {CALLTAP_REC_STACK, 0, 31, 0x7fff0000},
				   {CALLTAP_REC_LOST, 0, 32, 5},
				   {CALLTAP_REC_WAIT, 0, 33, 600},
				   {CALLTAP_REC_LOST, 0, 34, 6},
				   {CALLTAP_REC_UNWIND, 2, 35, 0},
				   {CALLTAP_REC_EXIT, 1, 36, 0}};
	struct encoded *to = *state;

	encode(to, 5, words, 14);
	expect(to, says, 9);
	assert_int_equal(to->result.lost, 11);
	assert_int_equal(to->result.wait_ticks, 600);
	assert_int_equal(to->result.holes, 0);
}

static void holes_are_skipped(void **state)
{
	const uint64_t words[] = {0, word(CALLTAP_REC_ENTRY, 1, 10), 0, 0, word(CALLTAP_REC_EXIT, 1, 20),
				  0, word(CALLTAP_REC_ENTRY, 2, 30), 0, 0, 0};
	const struct say says[] = {
		{CALLTAP_REC_ENTRY, 1, 10, 0}, {CALLTAP_REC_EXIT, 1, 20, 0}, {CALLTAP_REC_ENTRY, 2, 30, 0}};
	struct encoded *to = *state;

	encode(to, 5, words, 10);
	expect(to, says, 3);
	assert_int_equal(to->result.holes, 4);
}

static void nothing_there(void **state)
{
	const uint64_t words[16] = {0};
	struct encoded *to = *state;

	encode(to, 5, words, 16);
	assert_int_equal(to->size, 0);
	assert_int_equal(to->result.records, 0);
	encode(to, 5, words, 0);
	assert_int_equal(to->size, 0);
}

static void second_word_is_missing(void **state)
{
	const uint64_t words[] = {word(CALLTAP_REC_CALL, 1, 10), 0, word(CALLTAP_REC_CALL, 2, 20)};
	const struct say says[] = {{CALLTAP_REC_CALL, 1, 10, 0}, {CALLTAP_REC_CALL, 2, 20, 0}};
	struct encoded *to = *state;

	encode(to, 5, words, 3);
	expect(to, says, 2);
}

static void clock_wraps(void **state)
{
	const uint64_t a = HIGH(7) - 100, b = HIGH(7) + 50, c = HIGH(900) + 3;
	const uint64_t words[] = {word(CALLTAP_REC_ENTRY, 1, a), word(CALLTAP_REC_TIME, 0, b), b,
				  word(CALLTAP_REC_ENTRY, 2, b), word(CALLTAP_REC_TIME, 0, c), c,
				  word(CALLTAP_REC_EXIT, 2, c)};
	const struct say says[] = {
		{CALLTAP_REC_ENTRY, 1, a, 0}, {CALLTAP_REC_ENTRY, 2, b, 0}, {CALLTAP_REC_EXIT, 2, c, 0}};
	struct encoded *to = *state;

	encode(to, a - 7, words, 7);
	expect(to, says, 3);
}

/* A TIME whose second word is not written yet says nothing. */
static void unwritten_time(void **state)
{
	const uint64_t words[] = {word(CALLTAP_REC_ENTRY, 1, 10), word(CALLTAP_REC_TIME, 0, 12), 0,
				  word(CALLTAP_REC_EXIT, 1, 20)};
	const struct say says[] = {{CALLTAP_REC_ENTRY, 1, HIGH(5) + 10, 0}, {CALLTAP_REC_EXIT, 1, HIGH(5) + 20, 0}};
	struct encoded *to = *state;

	encode(to, HIGH(5) + 1, words, 4);
	expect(to, says, 2);
}

/* The handler's TIME comes first, then two interrupted probes' older times. */
static void late_records_keep_their_epoch(void **state)
{
	const uint64_t handler = HIGH(8) + 500, late = HIGH(8) - 300, later = HIGH(8) - 900, after = HIGH(8) + 5000;
	const uint64_t words[] = {word(CALLTAP_REC_TIME, 0, handler),  handler,
				  word(CALLTAP_REC_ENTRY, 1, handler), word(CALLTAP_REC_ENTRY, 2, late),
				  word(CALLTAP_REC_ENTRY, 3, later),   word(CALLTAP_REC_EXIT, 3, after)};
	const struct say says[] = {{CALLTAP_REC_ENTRY, 1, handler, 0},
				   {CALLTAP_REC_ENTRY, 2, late, 0},
				   {CALLTAP_REC_ENTRY, 3, later, 0},
				   {CALLTAP_REC_EXIT, 3, after, 0}};
	struct encoded *to = *state;

	encode(to, HIGH(7) + 5, words, 6);
	expect(to, says, 4);
	/* Here the handler opened the sub-buffer, so the head has the newer time. */
	encode(to, handler, words + 3, 3);
	expect(to, says + 1, 3);
}

/* A second's sleep is no late record. */
static void long_sleep_goes_forward(void **state)
{
	const uint64_t asleep = HIGH(8) + 10, awake = HIGH(8) + 0xf0000000u;
	const uint64_t words[] = {word(CALLTAP_REC_ENTRY, 1, asleep), word(CALLTAP_REC_EXIT, 1, awake)};
	const struct say says[] = {{CALLTAP_REC_ENTRY, 1, asleep, 0}, {CALLTAP_REC_EXIT, 1, awake, 0}};
	struct encoded *to = *state;

	encode(to, asleep, words, 2);
	expect(to, says, 2);
}

static uint64_t random_step(uint64_t *seed)
{
	uint64_t r = random_next(seed);

	return (r >> 8) % (r % 64 == 0 ? 1ull << 40 : r % 8 == 0 ? 1ull << 27 : 300);
}

static void random_streams(void **state)
{
	enum { COUNT = 2000 };
	static const enum calltap_record_kind kinds[] = {CALLTAP_REC_ENTRY,  CALLTAP_REC_EXIT,	CALLTAP_REC_CALL,
							 CALLTAP_REC_UNWIND, CALLTAP_REC_STACK, CALLTAP_REC_LOST,
							 CALLTAP_REC_WAIT,   CALLTAP_REC_TAIL};
	struct say *says = calloc(COUNT, sizeof(*says));
	uint64_t *words = calloc(COUNT * 6, sizeof(*words));
	struct encoded *to = *state;
	uint64_t seed = 12345;

	for (int round = 0; round < 50; round++) {
		uint64_t ticks = HIGH(3) + random_next(&seed) % HIGH(1), head = ticks, high = ticks >> 32, holes = 0;
		size_t used = 0, count = 1 + random_next(&seed) % COUNT;

		for (size_t i = 0; i < count; i++) {
			uint64_t at = ticks += random_step(&seed), r = random_next(&seed);

			if (ticks >> 32 != high) {
				high = ticks >> 32;
				words[used++] = word(CALLTAP_REC_TIME, 0, ticks);
				words[used++] = ticks;
			}
			if (r % 16 == 0 && i)
				at -= r >> 10 & 0xfff; /* a late one, perhaps of the epoch before */
			for (; r >> 40 & 1; r = random_next(&seed), holes++)
				words[used++] = 0;
			says[i] = (struct say){kinds[r % 8], (uint32_t)r & CALLTAP_RECORD_ID_MAX, at, 0};
			words[used++] = word(says[i].kind, says[i].id, at);
			if (calltap_record_words(calltap_record_make(says[i].kind, 0, 0)) == 2)
				words[used++] = says[i].extra = r;
		}
		encode(to, head, words, used);
		expect(to, says, count);
		assert_int_equal(to->result.holes, holes);
	}
	free(says);
	free(words);
}

/* A record of any size: its head, and words behind it that are as asked for. */
static size_t put_event(uint64_t *words, uint32_t type, uint32_t count, uint64_t ticks, uint64_t value)
{
	words[0] = word(CALLTAP_REC_EVENT, calltap_event_id(type, 1 + count), ticks);
	for (uint32_t i = 0; i < count; i++)
		words[1 + i] = value + i;
	return 1 + count;
}

/* The next record is an event of that size, with these words. */
static void expect_event(struct record_decoder *decoder, uint32_t type, uint32_t count, uint64_t ticks, uint64_t value)
{
	struct record record;

	assert_int_equal(record_decoder_next(decoder, &record), 1);
	assert_int_equal(record.kind, CALLTAP_REC_EVENT);
	assert_int_equal(calltap_event_type(record.id), type);
	assert_int_equal(calltap_event_words(record.id), 1 + count);
	assert_int_equal(record.ticks, ticks);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t behind;

		memcpy(&behind, record.behind + i * sizeof(behind), sizeof(behind));
		assert_true(behind == value + i);
	}
}

static void expect_entry(struct record_decoder *decoder, uint32_t id)
{
	struct record record;

	assert_int_equal(record_decoder_next(decoder, &record), 1);
	assert_int_equal(record.kind, CALLTAP_REC_ENTRY);
	assert_int_equal(record.id, id);
}

/* Also of types that nobody knows. */
static void events_of_all_sizes(void **state)
{
	enum { EVENTS = CALLTAP_EVENT_WORDS_MAX };
	uint64_t *words = calloc(EVENTS * (EVENTS + 4), sizeof(*words));
	struct encoded *to = *state;
	struct record_decoder decoder;
	struct record record;
	size_t used = 0;

	for (uint32_t i = 0; i < EVENTS; i++) {
		used += put_event(words + used, CALLTAP_EVENT_TYPE_MAX - i, i, 10 + i, (uint64_t)i << 47);
		words[used++] = word(CALLTAP_REC_ENTRY, i, 11 + i);
	}
	encode(to, 5, words, used);
	assert_int_equal(to->result.events, EVENTS);
	assert_int_equal(to->result.records, 2 * EVENTS);
	assert_int_equal(to->result.holes, 0);
	assert_int_equal(record_decoder_init(&decoder, to->payload, to->size), 0);
	for (uint32_t i = 0; i < EVENTS; i++) {
		expect_event(&decoder, CALLTAP_EVENT_TYPE_MAX - i, i, 10 + i, (uint64_t)i << 47);
		expect_entry(&decoder, i);
	}
	assert_int_equal(record_decoder_next(&decoder, &record), 0);
	free(words);
}

/*
 * An event whose words are there in part and whose head is not: what is there
 * looks like heads as little as it can, and the records behind it are found.
 */
static void an_unwritten_event_is_a_hole(void **state)
{
	uint64_t words[16] = {0};
	struct encoded *to = *state;
	struct record_decoder decoder;

	for (unsigned there = 0; there < 1u << 6; there++) {
		memset(words, 0, sizeof(words));
		put_event(words, 7, 6, 10, ((uint64_t)1 << 56) - 7);
		words[0] = 0; /* taken, and not written */
		for (unsigned i = 0; i < 6; i++)
			if (!(there >> i & 1))
				words[1 + i] = 0;
		words[7] = word(CALLTAP_REC_ENTRY, 3, 20);
		encode(to, 5, words, 16);
		assert_int_equal(to->result.records, 1);
		assert_int_equal(to->result.holes, 7);
		assert_int_equal(record_decoder_init(&decoder, to->payload, to->size), 0);
		expect_entry(&decoder, 3);
	}
}

/* Records that were written over an event, or under one that came too late: what has a kind is a head. */
static void a_broken_event_takes_nothing_with_it(void **state)
{
	uint64_t words[16] = {0};
	struct encoded *to = *state;
	struct record_decoder decoder;
	size_t used = put_event(words, 7, 9, 10, 1);

	words[4] = word(CALLTAP_REC_ENTRY, 3, 20);
	words[used++] = word(CALLTAP_REC_ENTRY, 4, 21);
	encode(to, 5, words, used);
	assert_int_equal(to->result.records, 2);
	assert_int_equal(to->result.events, 0);
	assert_int_equal(record_decoder_init(&decoder, to->payload, to->size), 0);
	expect_entry(&decoder, 3);
	expect_entry(&decoder, 4);

	/* An event that ends behind the memory, and one of an impossible size. */
	encode(to, 5, words + 4, 1);
	assert_int_equal(to->result.records, 1);
	put_event(words, 7, 9, 10, 1);
	words[9] = word(CALLTAP_REC_ENTRY, 5, 22);
	words[0] = word(CALLTAP_REC_EVENT, calltap_event_id(7, 11), 10);
	encode(to, 5, words, 10);
	assert_int_equal(to->result.records, 1);
	for (uint32_t size = 0; size <= 0xfff; size++) {
		words[0] = word(CALLTAP_REC_EVENT, calltap_event_id(7, size), 10);
		encode(to, 5, words, 10);
		assert_int_equal(to->result.records, size && size < 10 ? 2 : 1);
	}
}

/* A file's sizes are not believed. */
static void a_file_s_event_has_a_size_that_can_be(void **state)
{
	uint64_t words[16];
	struct encoded *to = *state;
	struct record_decoder decoder;
	struct record record;
	size_t used = put_event(words, 7, 9, 10, 1);
	unsigned char *payload = NULL;
	uint32_t head;

	encode(to, 5, words, used);
	for (uint32_t size = 0; size <= 0xfff; size++) {
		int expected = size && size <= 10 ? 1 : -EBADMSG;

		payload = realloc(payload, to->size);
		memcpy(payload, to->payload, to->size);
		head = (uint32_t)CALLTAP_REC_EVENT << CALLTAP_RECORD_ID_BITS | calltap_event_id(7, size);
		memcpy(payload + sizeof(struct calltap_file_data), &head, sizeof(head));
		assert_int_equal(record_decoder_init(&decoder, payload, to->size), 0);
		assert_int_equal(record_decoder_next(&decoder, &record), expected);
	}
	free(payload);
}

/* Whatever is in the memory, the result decodes to the end. */
static void random_garbage(void **state)
{
	enum { COUNT = 4096 };
	uint64_t *words = calloc(COUNT, sizeof(*words)), seed = 99;
	struct encoded *to = *state;
	struct record_decoder decoder;
	struct record record;

	for (int round = 0; round < 50; round++) {
		uint64_t records = 0;
		int got;

		for (size_t i = 0; i < COUNT; i++)
			words[i] = random_next(&seed);
		encode(to, random_next(&seed), words, COUNT);
		assert_int_equal(record_decoder_init(&decoder, to->payload, to->size), 0);
		while ((got = record_decoder_next(&decoder, &record)) == 1)
			records++;
		assert_int_equal(got, 0);
		assert_int_equal(records, to->result.records);
	}
	free(words);
}

static void too_many_words(void **state)
{
	struct encoded *to = *state;
	uint64_t one = 0;

	assert_int_equal(
		record_encode(to->encoder, 0, 0, 0, &one, CALLTAP_CHUNK_RAW_MAX, &to->payload, &to->size, &to->result),
		-E2BIG);
}

/* A payload in memory of exactly its size, so that a checker sees every read past it. */
static void damaged_payloads(void **state)
{
	uint64_t words[64], seed = 5;
	struct encoded *to = *state;
	struct record_decoder decoder;
	struct record record;

	for (size_t i = 0; i < 64; i++)
		words[i] = word(i % 2 ? CALLTAP_REC_ENTRY : CALLTAP_REC_CALL, 1, i * 1000);
	encode(to, 0, words, 64);
	for (size_t size = 0; size < to->size; size++) {
		unsigned char *copy = malloc(size);

		if (size)
			memcpy(copy, to->payload, size);
		assert_int_equal(record_decoder_init(&decoder, copy, size), -EBADMSG);
		free(copy);
	}
	for (int round = 0; round < 20000; round++) {
		unsigned char *copy = malloc(to->size);
		uint64_t r = random_next(&seed);
		unsigned steps = 0;

		memcpy(copy, to->payload, to->size);
		copy[r % to->size] ^= 1u << (r >> 32 & 7);
		copy[(r >> 16) % to->size] ^= 1u << (r >> 40 & 7);
		if (!record_decoder_init(&decoder, copy, to->size))
			while (record_decoder_next(&decoder, &record) == 1)
				assert_true(++steps <= to->size);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_kind, setup, teardown),
		cmocka_unit_test_setup_teardown(holes_are_skipped, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_there, setup, teardown),
		cmocka_unit_test_setup_teardown(second_word_is_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(clock_wraps, setup, teardown),
		cmocka_unit_test_setup_teardown(unwritten_time, setup, teardown),
		cmocka_unit_test_setup_teardown(late_records_keep_their_epoch, setup, teardown),
		cmocka_unit_test_setup_teardown(long_sleep_goes_forward, setup, teardown),
		cmocka_unit_test_setup_teardown(random_streams, setup, teardown),
		cmocka_unit_test_setup_teardown(events_of_all_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unwritten_event_is_a_hole, setup, teardown),
		cmocka_unit_test_setup_teardown(a_broken_event_takes_nothing_with_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_s_event_has_a_size_that_can_be, setup, teardown),
		cmocka_unit_test_setup_teardown(random_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_words, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_payloads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
