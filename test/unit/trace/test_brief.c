/*
 * Records without a time, from rings to events: their order, and the bounds of when they were written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "host/trace/decode.h"
#include "host/trace/follow.h"

#include <fcntl.h>
#include <unistd.h>

#define PAD CALLTAP_RECORD_PAD

static uint32_t in(uint32_t id)
{
	return (uint32_t)CALLTAP_REC_BRIEF_ENTRY << CALLTAP_RECORD_ID_BITS | id;
}

static uint32_t out(uint32_t id)
{
	return (uint32_t)CALLTAP_REC_BRIEF_EXIT << CALLTAP_RECORD_ID_BITS | id;
}

static uint64_t two(uint32_t early, uint32_t late)
{
	return (uint64_t)late << 32 | early;
}

static uint64_t timed(enum calltap_record_kind kind, uint32_t id, uint64_t ticks)
{
	return calltap_record_make(kind, id, (uint32_t)ticks);
}

/* What a record is to be; exact if lo and hi are equal. */
struct want {
	unsigned kind;
	uint32_t id;
	uint64_t ticks, lo, hi;
};

static struct record_encoder *encoder;
static struct encode_result result;
static const void *payload;
static size_t size;

static void encode(uint64_t head_ticks, const uint64_t *words, size_t count)
{
	assert_int_equal(record_encode(encoder, 0, 0, head_ticks, words, count, &payload, &size, &result), 0);
}

/* The same, where the decoder passes over runs of brief records. */
static void expect_passed(const struct record_limits *limits, uint64_t next_ticks, const struct want *wants,
			  size_t count)
{
	struct record_passed passed;
	struct record_decoder decoder;
	struct record record;
	uint32_t head;

	assert_int_equal(record_decoder_init(&decoder, payload, size), 0);
	record_decoder_bound(&decoder, limits, next_ticks);
	for (size_t i = 0; i < count; i++) {
		if (!record_decoder_pass(&decoder, &passed)) {
			assert_int_equal(record_decoder_next(&decoder, &record), 1);
			assert_false(record.brief);
			assert_int_equal(record.ticks, wants[i].ticks);
			continue;
		}
		assert_true(passed.count && passed.count <= count - i);
		for (uint32_t at = 0; at < passed.count; at++) {
			memcpy(&head, passed.heads + at * sizeof(head), sizeof(head));
			assert_int_equal(calltap_record_brief_kind(head), wants[i + at].kind);
			assert_int_equal(calltap_record_brief_id(head), wants[i + at].id);
		}
		i += passed.count - 1;
		assert_int_equal(passed.ticks, wants[i].ticks);
	}
	assert_false(record_decoder_pass(&decoder, &passed));
	assert_int_equal(record_decoder_next(&decoder, &record), 0);
}

static void expect(const struct record_limits *limits, uint64_t next_ticks, const struct want *wants, size_t count)
{
	struct record_decoder decoder;
	struct record record;

	assert_int_equal(result.records, count);
	assert_int_equal(record_decoder_init(&decoder, payload, size), 0);
	record_decoder_bound(&decoder, limits, next_ticks);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(record_decoder_next(&decoder, &record), 1);
		assert_int_equal(record.kind, wants[i].kind);
		assert_int_equal(record.id, wants[i].id);
		assert_int_equal(record.ticks, wants[i].ticks);
		assert_int_equal(record.lo, wants[i].lo);
		assert_int_equal(record.hi, wants[i].hi);
	}
	assert_int_equal(record_decoder_next(&decoder, &record), 0);
	expect_passed(limits, next_ticks, wants, count);
}

static void halves_are_records_in_their_order(void **state)
{
	const uint64_t words[] = {timed(CALLTAP_REC_ENTRY, 1, 100),
				  two(in(2), out(2)),
				  two(in(3), PAD),
				  timed(CALLTAP_REC_CALL, 9, 200),
				  two(0xfffffff1, 0), /* an address, not a brief record */
				  two(PAD, in(4)),
				  two(0, out(4)),
				  out(3), /* the writer was killed */
				  two(PAD, PAD)};
	const struct want wants[] = {{CALLTAP_REC_ENTRY, 1, 100, 100, 100}, {CALLTAP_REC_ENTRY, 2, 125, 100, 200},
				     {CALLTAP_REC_EXIT, 2, 150, 100, 200},  {CALLTAP_REC_ENTRY, 3, 175, 100, 200},
				     {CALLTAP_REC_CALL, 9, 200, 200, 200},  {CALLTAP_REC_ENTRY, 4, 210, 200, 240},
				     {CALLTAP_REC_EXIT, 4, 220, 200, 240},  {CALLTAP_REC_EXIT, 3, 230, 200, 240}};

	encode(90, words, 9);
	assert_int_equal(result.holes, 1);
	assert_int_equal(result.last_ticks, 200);
	expect(NULL, 240, wants, 8);
}

/* Words between brief ones: each of what may be there, at each place. */
static void runs_have_anything_in_any_place(void **state)
{
	enum { WORDS = 14, KINDS = 7 };
	const uint64_t others[KINDS] = {two(in(2), PAD),
					two(PAD, in(3)),
					out(4), /* its upper half is not written */
					two(PAD, PAD),
					0,
					two(0xdfffffff, in(5)), /* its lower half is no record */
					timed(CALLTAP_REC_EXIT, 6, 300)};
	uint32_t wants[2 * WORDS], heads[2 * WORDS];

	for (uint32_t place = 0; place < WORDS * KINDS; place++) {
		uint64_t words[WORDS];
		uint32_t count = 0;

		for (uint32_t i = 0; i < WORDS; i++)
			words[i] = two(in(100 + i), out((1u << 25) - i));
		words[place / KINDS] = others[place % KINDS];
		for (uint32_t i = 0; i < 2 * WORDS; i++) {
			uint32_t half = (uint32_t)(words[i / 2] >> (i % 2 ? 32 : 0));

			if (half != PAD && (calltap_record_is_brief(half) || half >> 28 == CALLTAP_REC_EXIT))
				wants[count++] = half;
		}
		encode(90, words, WORDS);
		assert_int_equal(result.records, count);
		memcpy(heads, (const char *)payload + sizeof(struct calltap_file_data), count * sizeof(heads[0]));
		assert_memory_equal(heads, wants, count * sizeof(heads[0]));
	}
}

static void the_span_bounds_what_the_next_time_does_not(void **state)
{
	const struct calltap_file_late late[] = {{10, 20}, {100, 160}, {300, 400}};
	const struct record_limits span = {.span = 40, .end_ticks = UINT64_MAX};
	const struct record_limits rows = {.span = 40, .late = late, .late_count = 3, .end_ticks = UINT64_MAX};
	const struct record_limits end = {.span = 40, .end_ticks = 120};
	const uint64_t words[] = {timed(CALLTAP_REC_ENTRY, 1, 100), two(in(2), out(2)), two(in(2), PAD),
				  timed(CALLTAP_REC_EXIT, 1, 200)};
	struct want wants[] = {{CALLTAP_REC_ENTRY, 1, 100, 100, 100},
			       {CALLTAP_REC_ENTRY, 2, 110, 100, 140},
			       {CALLTAP_REC_EXIT, 2, 120, 100, 140},
			       {CALLTAP_REC_ENTRY, 2, 130, 100, 140},
			       {CALLTAP_REC_EXIT, 1, 200, 200, 200}};

	encode(100, words, 4);
	expect(&span, 0, wants, 5);
	for (int i = 1; i < 4; i++) {
		wants[i].ticks = 100 + 15 * (unsigned)i;
		wants[i].hi = 160;
	}
	expect(&rows, 0, wants, 5);
	for (int i = 1; i < 4; i++) {
		wants[i].ticks = 100 + 5 * (unsigned)i;
		wants[i].hi = 120;
	}
	expect(&end, 0, wants, 5);
}

/* What is known at a chunk's beginning and end. */
static void chunks_bound_each_other(void **state)
{
	const struct record_limits span = {.span = 1000, .end_ticks = UINT64_MAX};
	const uint64_t words[] = {two(in(2), out(2)), timed(CALLTAP_REC_EXIT, 1, 200), two(in(3), 0)};
	struct want wants[] = {{CALLTAP_REC_ENTRY, 2, 130, 100, 190},
			       {CALLTAP_REC_EXIT, 2, 160, 100, 190},
			       {CALLTAP_REC_EXIT, 1, 190, 190, 190},
			       {CALLTAP_REC_ENTRY, 3, 195, 190, 200}};
	struct calltap_file_data data;

	encode(100, (const uint64_t[]){words[0], timed(CALLTAP_REC_EXIT, 1, 190), two(in(3), 0)}, 3);
	memcpy(&data, payload, sizeof(data));
	assert_int_equal(data.base_ticks, 100);
	expect(NULL, 200, wants, 4);
	/* The next chunk goes on with the run, or there may be one: then times in it may be as early as this. */
	wants[3] = (struct want){CALLTAP_REC_ENTRY, 3, 190, 190, 1190};
	expect(&span, 190, wants, 4);
	expect(&span, RECORD_NEXT_OPEN, wants, 4);
	wants[3].ticks = 690;
	expect(&span, 0, wants, 4);
	/* Nothing is known at all. */
	wants[3] = (struct want){CALLTAP_REC_ENTRY, 3, 190, 190, UINT64_MAX};
	expect(NULL, 0, wants, 4);

	encode(100, words, 1);
	memcpy(&data, payload, sizeof(data));
	assert_int_equal(data.base_ticks, 100);
	assert_int_equal(data.last_ticks, 100);
	assert_int_equal(data.times_size, 0);
	expect(NULL, 190, wants, 2);
}

/* The time of what a signal handler interrupted is older than the handler's records, and bounds nothing. */
static void late_times_are_passed_over(void **state)
{
	const uint64_t words[] = {timed(CALLTAP_REC_ENTRY, 1, 110), two(in(2), PAD), timed(CALLTAP_REC_EXIT, 1, 100),
				  timed(CALLTAP_REC_EXIT, 1, 130)};
	const struct want wants[] = {{CALLTAP_REC_ENTRY, 1, 110, 110, 110},
				     {CALLTAP_REC_ENTRY, 2, 120, 110, 130},
				     {CALLTAP_REC_EXIT, 1, 100, 100, 100},
				     {CALLTAP_REC_EXIT, 1, 130, 130, 130}};

	encode(100, words, 4);
	expect(NULL, 0, wants, 4);
}

/* Take the next record; quick: as a cursor does. */
static bool take_next(struct record_decoder *decoder, struct record *record, bool quick)
{
	if (!quick || !record_decoder_has_placed(decoder))
		return record_decoder_next(decoder, record) > 0;
	record_decoder_take(decoder, record);
	return true;
}

static void expect_places(const struct record_weights *weights, const uint64_t *ticks, bool quick)
{
	struct record_placing placing = {.open = {.depth = 0}};
	struct record_decoder decoder;
	struct record record;

	assert_int_equal(record_decoder_init(&decoder, payload, size), 0);
	record_decoder_bound(&decoder, NULL, 0);
	record_decoder_weigh(&decoder, weights, &placing);
	for (; take_next(&decoder, &record, quick); ticks++) {
		assert_int_equal(record.ticks, *ticks);
		assert_true(record.lo <= record.ticks && record.ticks <= record.hi);
	}
	assert_int_equal(*ticks, 0);
	assert_int_equal(placing.open.depth, 0);
}

/* Expect the times of brief records between exact ones, in functions 1 and 2, of which 2 takes three times as long. */
static void expect_weighed(const uint64_t *words, size_t count, const double *rare, const uint64_t *ticks)
{
	const double pieces[] = {0, 10, 30, 0};
	const struct record_weights weights = {.ticks = pieces, .rare = rare, .count = 3, .other = 20};

	encode(1000, words, count);
	expect_places(&weights, ticks, false);
	expect_places(&weights, ticks, true);
}

static void weights_place_what_has_no_time(void **state)
{
	uint64_t words[] = {timed(CALLTAP_REC_ENTRY, 1, 1000), two(in(2), out(2)), two(in(3), out(3)),
			    timed(CALLTAP_REC_EXIT, 1, 1000 + 80)};

	/* Pieces of 1, 2, 1, 3, 1: 10 + 30 + 10 + 20 + 10. */
	expect_weighed(words, 4, NULL, (const uint64_t[]){1000, 1010, 1040, 1050, 1070, 1080, 0});
	words[3] = timed(CALLTAP_REC_EXIT, 1, 1000 + 40);
	expect_weighed(words, 4, NULL, (const uint64_t[]){1000, 1005, 1020, 1025, 1035, 1040, 0});
	words[3] = timed(CALLTAP_REC_EXIT, 1, 1000 + 120);
	expect_weighed(words, 4, NULL, (const uint64_t[]){1000, 1015, 1060, 1075, 1105, 1120, 0});
	words[3] = timed(CALLTAP_REC_EXIT, 1, 9000); /* most of it in the last piece, whose end has a time */
	expect_weighed(words, 4, NULL, (const uint64_t[]){1000, 1020, 1080, 1100, 1140, 9000, 0});
}

/* A run that is placed in several goes; calls are open across them. */
static void long_runs_are_placed_by_parts(void **state)
{
	enum { CALLS = RECORD_PLACES };
	uint64_t words[CALLS + 4] = {timed(CALLTAP_REC_ENTRY, 1, 1000)}, ticks[2 * CALLS + 8] = {1000};
	size_t word = 1, at = 1;

	words[word++] = two(in(2), PAD); /* so that a part ends within a call */
	ticks[at++] = 1010;
	for (uint32_t i = 0; i < CALLS; i++, at += 2) {
		words[word++] = two(in(1), out(1));
		ticks[at] = ticks[at - 1] + 30;
		ticks[at + 1] = ticks[at] + 10;
	}
	words[word++] = two(out(2), PAD);
	ticks[at] = ticks[at - 1] + 30;
	ticks[at + 1] = ticks[at] + 10;
	words[word++] = timed(CALLTAP_REC_EXIT, 1, ticks[at + 1]);
	expect_weighed(words, word, NULL, ticks);
}

/* Long pieces, which are rare, get of the time that nothing else explains. */
static void rare_pieces_get_of_what_is_left(void **state)
{
	const double rare[] = {0, 0, 320, 0};
	uint64_t words[] = {timed(CALLTAP_REC_ENTRY, 1, 1000), two(in(2), out(2)), two(in(3), out(3)),
			    timed(CALLTAP_REC_EXIT, 1, 1000 + 80)};

	expect_weighed(words, 4, rare, (const uint64_t[]){1000, 1010, 1040, 1050, 1070, 1080, 0});
	words[3] = timed(CALLTAP_REC_EXIT, 1, 1000 + 40);
	expect_weighed(words, 4, rare, (const uint64_t[]){1000, 1005, 1020, 1025, 1035, 1040, 0});
	/* 200 more: half of what the weights might grow by, and what is rare might take. */
	words[3] = timed(CALLTAP_REC_EXIT, 1, 1000 + 280);
	expect_weighed(words, 4, rare, (const uint64_t[]){1000, 1015, 1220, 1235, 1265, 1280, 0});
	words[3] = timed(CALLTAP_REC_EXIT, 1, 9000);
	expect_weighed(words, 4, rare, (const uint64_t[]){1000, 1020, 1400, 1420, 1460, 9000, 0});
}

static void older_ones_are_skipped(void **state)
{
	const uint64_t words[] = {timed(CALLTAP_REC_ENTRY, 1, 110),
				  two(in(2), out(2)),
				  timed(CALLTAP_REC_ENTRY, 1, 130),
				  two(in(2), out(2)),
				  two(in(2), out(2)),
				  timed(CALLTAP_REC_EXIT, 1, 150),
				  two(in(2), 0)};
	const struct {
		uint64_t from;
		size_t skipped;
		uint64_t ticks;
	} cases[] = {{100, 0, 105}, {110, 0, 105}, {111, 1, 110}, {130, 1, 110},
		     {131, 3, 130}, {150, 3, 130}, {151, 7, 150}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t ticks = 105;

		assert_int_equal(record_skip_older(words, 7, cases[i].from, &ticks), cases[i].skipped);
		assert_int_equal(ticks, cases[i].ticks);
	}
	for (uint64_t from = 0; from < 10; from++) {
		uint64_t ticks = 5;

		assert_int_equal(record_skip_older(words + 1, 1, from, &ticks), from > 5);
	}
}

static void put_ticks(struct maker *maker, uint64_t span, const struct calltap_file_late *rows, uint32_t count)
{
	char bytes[1024];
	const struct calltap_file_ticks ticks = {.span = span, .count = count};

	memcpy(bytes, &ticks, sizeof(ticks));
	memcpy(bytes + sizeof(ticks), rows, count * sizeof(*rows));
	assert_int_equal(
		trace_writer_chunk(maker->writer, CALLTAP_CHUNK_TICKS, bytes, sizeof(ticks) + count * sizeof(*rows)),
		0);
}

static void chunks_of_bounds_are_joined(void **state)
{
	static const struct calltap_file_late rows[] = {{50, 60}, {10, 20}, {15, 30}, {9, 2}, {60, 61}};
	struct trace_estimates estimates;
	struct maker maker;
	struct trace *trace;

	maker_open(&maker);
	put_ticks(&maker, 40, rows, 5);
	put_ticks(&maker, 90, rows, 0);
	put_ticks(&maker, 20, rows + 1, 1);
	maker_end(&maker, 0);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
	assert_null(trace_damage(trace));
	trace_estimates(trace, &estimates);
	assert_true(estimates.any);
	assert_int_equal(estimates.span_ticks, 90);
	assert_int_equal(estimates.late_count, 2);
	assert_int_equal(estimates.late_ticks, 20 + 11);
	trace_close(trace);
	maker_remove(&maker);
}

static void bounds_of_a_wrong_size_are_damage(void **state)
{
	const struct calltap_file_ticks many = {.span = 5, .count = UINT32_MAX};
	struct maker maker;
	bool told;

	for (size_t part = 8; part <= sizeof(many); part += 8) {
		maker_open(&maker);
		assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_TICKS, &many, part), 0);
		maker_end(&maker, 0);
		maker_close(&maker);
		assert_int_equal(file_walk(maker.path, &told), 0);
		assert_true(told);
		maker_remove(&maker);
	}
}

/*
 * Random threads, as recorders write them: a tick thread counts, the recorder reads its clock when the count has
 * changed since it did last, or when it wants to.
 */
enum { THREADS = 3, EVENTS = 3000, SUB_WORDS = 200, PERIOD = 500, SPAN = 1000, CYCLE = 40, LATE = 5 };

struct truth {
	uint64_t ticks[EVENTS];
	uint32_t count;
};

struct recorder {
	uint32_t thread;
	uint64_t number, now, tick, part_ticks, head_ticks, high;
	uint64_t words[SUB_WORDS];
	size_t used, part;
	bool half;
	struct truth truth;
};

/* The count at a time: of CYCLE periods the last LATE ones are one. */
static uint64_t tick_at(uint64_t ticks)
{
	uint64_t period = ticks / PERIOD;

	return period % CYCLE < CYCLE - LATE ? period : period / CYCLE * CYCLE + CYCLE - LATE;
}

/* Write what is there to the file, as the drainer does: all of a whole sub-buffer, of others up to the first half. */
static void drain(struct maker *maker, struct recorder *recorder, bool open)
{
	size_t end = recorder->used - (open && recorder->half);

	if (end == recorder->part)
		return;
	assert_int_equal(record_encode(maker->encoder, recorder->thread, recorder->number, recorder->part_ticks,
				       recorder->words + recorder->part, end - recorder->part, &payload, &size,
				       &result),
			 0);
	if (size) {
		assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_DATA, payload, size), 0);
		recorder->number++;
	}
	(void)record_skip_older(recorder->words + recorder->part, end - recorder->part, UINT64_MAX,
				&recorder->part_ticks);
	recorder->part = end;
}

static void open_sub(struct maker *maker, struct recorder *recorder)
{
	const struct truth *truth = &recorder->truth;
	uint64_t before = truth->count ? truth->ticks[truth->count - 1] : recorder->now;

	if (recorder->used)
		drain(maker, recorder, false);
	memset(recorder->words, 0, sizeof(recorder->words));
	recorder->used = recorder->part = 0;
	recorder->half = false;
	recorder->part_ticks = before + (recorder->now - before) / 2;
	recorder->high = recorder->part_ticks >> 32;
}

static void put_brief(struct recorder *recorder, bool entry)
{
	uint64_t brief = entry ? in(recorder->thread) : out(recorder->thread);

	if (recorder->half)
		recorder->words[recorder->used - 1] |= brief << 32;
	else
		recorder->words[recorder->used++] = brief;
	recorder->half = !recorder->half;
}

static void put_timed(struct recorder *recorder, bool entry)
{
	if (recorder->half)
		recorder->words[recorder->used - 1] |= (uint64_t)PAD << 32;
	recorder->half = false;
	recorder->tick = tick_at(recorder->now);
	if (recorder->now >> 32 != recorder->high) {
		recorder->high = recorder->now >> 32;
		recorder->words[recorder->used++] = calltap_record_make(CALLTAP_REC_TIME, 0, 0);
		recorder->words[recorder->used++] = recorder->now;
	}
	recorder->words[recorder->used++] =
		timed(entry ? CALLTAP_REC_ENTRY : CALLTAP_REC_EXIT, recorder->thread, recorder->now);
}

static void record_one(struct maker *maker, struct recorder *recorder, uint64_t *seed)
{
	uint64_t dice = random_next(seed);
	bool entry = dice >> 40 & 1;

	recorder->now += dice % 64 ? dice % 7 : dice >> 8 & 0x7ff;
	if (!(dice >> 20 & 0xfff))
		recorder->now += dice >> 30 & 0xfffff;
	if (!recorder->used || recorder->used + 4 > SUB_WORDS)
		open_sub(maker, recorder);
	if (tick_at(recorder->now) != recorder->tick || (dice >> 50) % 50 == 0)
		put_timed(recorder, entry);
	else
		put_brief(recorder, entry);
	recorder->truth.ticks[recorder->truth.count++] = recorder->now;
	if ((dice >> 44) % 64 == 0)
		drain(maker, recorder, true);
}

/* Late rows of the whole time of a script. */
static void put_rows(struct maker *maker, const struct recorder *recorders)
{
	struct calltap_file_late rows[60];
	uint64_t cycle = (uint64_t)PERIOD * CYCLE, last = 0;
	uint32_t used = 0;

	for (int t = 0; t < THREADS; t++)
		last = recorders[t].now > last ? recorders[t].now : last;
	for (uint64_t at = recorders[0].truth.ticks[0] / cycle; at <= last / cycle; at++) {
		rows[used++] =
			(struct calltap_file_late){(at + 1) * cycle - (uint64_t)PERIOD * LATE, (at + 1) * cycle - 1};
		if (used == 60 || at == last / cycle) {
			put_ticks(maker, SPAN, rows, used);
			used = 0;
		}
	}
}

static void make_script(struct maker *maker, struct recorder *recorders, uint64_t *seed)
{
	struct calltap_file_end end = {.ticks = UINT64_C(1) << 40};

	maker_open(maker);
	for (uint32_t t = 0; t < THREADS; t++)
		recorders[t] = (struct recorder){.thread = t, .now = (UINT64_C(5) << 32) - 60000 - 1000 * t, .tick = 0};
	for (int i = 0; i < EVENTS * THREADS; i++) {
		struct recorder *recorder = &recorders[random_next(seed) % THREADS];

		if (recorder->truth.count < EVENTS)
			record_one(maker, recorder, seed);
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		drain(maker, &recorders[t], false);
		end.records += recorders[t].truth.count;
	}
	put_rows(maker, recorders);
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_END, &end, sizeof(end)), 0);
	maker_close(maker);
}

struct seen {
	uint32_t count, estimated;
	uint64_t last;
};

static void check_event(const struct recorder *recorders, struct seen *seen, const struct trace_event *event)
{
	struct seen *of = &seen[event->thread];
	uint64_t truth = recorders[event->thread].truth.ticks[of->count++];
	uint64_t off = truth > event->ticks ? truth - event->ticks : event->ticks - truth;

	assert_true(event->kind == CALLTAP_REC_ENTRY || event->kind == CALLTAP_REC_EXIT);
	assert_int_equal(event->id, event->thread);
	assert_true(event->ticks >= of->last);
	assert_true(event->lo <= truth && truth <= event->hi);
	assert_true(off <= trace_event_error(event));
	of->estimated += trace_event_error(event) != 0;
	of->last = event->ticks;
}

static void read_script(const struct maker *maker, const struct recorder *recorders)
{
	struct seen seen[THREADS] = {{0}};
	struct trace_cursor *cursor;
	struct trace_event event;
	struct trace *trace;
	uint64_t last = 0;

	assert_int_equal(trace_open(&trace, maker->path, NULL), 0);
	assert_null(trace_damage(trace));
	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, NULL), 0);
	while (trace_cursor_next(cursor, &event, NULL) > 0) {
		assert_true(event.ticks >= last);
		last = event.ticks;
		check_event(recorders, seen, &event);
	}
	trace_cursor_close(cursor);
	trace_close(trace);
	for (int t = 0; t < THREADS; t++) {
		assert_int_equal(seen[t].count, recorders[t].truth.count);
		assert_true(seen[t].estimated > seen[t].count / 2 && seen[t].estimated < seen[t].count);
	}
}

static void follow_script(const struct maker *maker, const struct recorder *recorders)
{
	struct seen seen[THREADS] = {{0}};
	struct trace_follow *follow;
	struct trace_event event;
	int fd = open(maker->path, O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(trace_follow_create(&follow, fd, 1 << 24), 0);
	close(fd);
	assert_int_equal(trace_follow_poll(follow), 0);
	trace_follow_finish(follow);
	while (trace_follow_next(follow, &event))
		check_event(recorders, seen, &event);
	for (int t = 0; t < THREADS; t++)
		assert_int_equal(seen[t].count, recorders[t].truth.count);
	trace_follow_destroy(follow);
}

static void the_truth_is_within_the_error(void **state)
{
	struct recorder *recorders = calloc(THREADS, sizeof(*recorders));
	struct maker maker;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);

		make_script(&maker, recorders, &random);
		read_script(&maker, recorders);
		follow_script(&maker, recorders);
		maker_remove(&maker);
	}
	free(recorders);
}

static int setup(void **state)
{
	return record_encoder_create(&encoder);
}

static int teardown(void **state)
{
	record_encoder_destroy(encoder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves_are_records_in_their_order),
		cmocka_unit_test(runs_have_anything_in_any_place),
		cmocka_unit_test(the_span_bounds_what_the_next_time_does_not),
		cmocka_unit_test(chunks_bound_each_other),
		cmocka_unit_test(late_times_are_passed_over),
		cmocka_unit_test(weights_place_what_has_no_time),
		cmocka_unit_test(long_runs_are_placed_by_parts),
		cmocka_unit_test(rare_pieces_get_of_what_is_left),
		cmocka_unit_test(older_ones_are_skipped),
		cmocka_unit_test(chunks_of_bounds_are_joined),
		cmocka_unit_test(bounds_of_a_wrong_size_are_damage),
		cmocka_unit_test(the_truth_is_within_the_error),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
