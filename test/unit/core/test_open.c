/* Calls that were open where a thread's records begin: the calls that open.h tells agree with the records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <calltap/abi/record.h>
#include <host/core/open.h>
#include <host/trace/writer.h>

enum { STACK = 0x7fff, OTHER = 0x5fff, WORDS = 256, ROUNDS = 20000, TOLD = CALLTAP_RECORD_OPEN_MAX };

/* Words of a sub-buffer, written one after the other. */
struct sub {
	uint64_t words[WORDS];
	size_t count;
	uint32_t ticks;
};

static void put(struct sub *sub, unsigned kind, uint32_t id)
{
	sub->words[sub->count++] = calltap_record_make(kind, id, ++sub->ticks);
}

static void put2(struct sub *sub, unsigned kind, uint32_t id, uint64_t second)
{
	put(sub, kind, id);
	sub->words[sub->count++] = second;
}

/* Frames 1 (the outermost) to `frames`, entered at 10, 20 and so on; what follows begins at 1001. */
static struct sub told(uint32_t frames)
{
	struct sub sub = {.ticks = 1000};

	put2(&sub, CALLTAP_REC_OPEN, CALLTAP_RECORD_ID_MAX, STACK);
	for (uint32_t i = frames; i; i--)
		put2(&sub, CALLTAP_REC_OPEN, i, (uint64_t)10 * i);
	sub.ticks = 1000;
	return sub;
}

static void see(struct open_calls *open, const struct sub *sub)
{
	struct record_encoder *encoder;
	struct encode_result result;
	const void *payload;
	size_t size;

	assert_int_equal(record_encoder_create(&encoder), 0);
	assert_int_equal(record_encode(encoder, 0, 0, 1, sub->words, WORDS, &payload, &size, &result), 0);
	if (size)
		assert_int_equal(open_calls_see(open, payload, size), 0);
	record_encoder_destroy(encoder);
}

/* Look for open calls in a history of one sub-buffer. */
static void play(struct open_calls *open, struct sub *sub, uint64_t from_ticks)
{
	open_calls_fit(sub->words, WORDS);
	assert_int_equal(open_calls_begin(open, sub->words, WORDS, from_ticks), 0);
	see(open, sub);
	open_calls_end(open);
}

/* The calls that are found are frames 1 to `count`. */
static void expect_from(struct sub *sub, uint64_t from_ticks, uint32_t count)
{
	struct open_calls open;

	play(&open, sub, from_ticks);
	assert_int_equal(open.count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(open.list[i].function, i + 1);
		assert_int_equal(open.list[i].entry_ticks, 10 * (i + 1));
	}
	if (count)
		assert_int_equal(open.stack, STACK);
	open_calls_destroy(&open);
}

static void expect(struct sub *sub, uint32_t count)
{
	expect_from(sub, 0, count);
}

static void frames_that_are_told_are_found(void **state)
{
	for (uint32_t frames = 0; frames <= TOLD; frames++) {
		struct sub sub = told(frames);

		put(&sub, CALLTAP_REC_ENTRY, 100);
		put(&sub, CALLTAP_REC_EXIT, 100);
		for (uint32_t i = frames; i; i--)
			put(&sub, CALLTAP_REC_EXIT, i);
		put(&sub, CALLTAP_REC_EXIT, 101); /* the exit of a call farther out */
		expect(&sub, frames);
	}
}

static void without_them_nothing_is_known(void **state)
{
	struct sub sub = {.ticks = 1000};

	put(&sub, CALLTAP_REC_ENTRY, 100);
	put(&sub, CALLTAP_REC_EXIT, 100);
	expect(&sub, 0);
}

static void the_call_that_is_being_left_is_named_by_its_exit(void **state)
{
	for (int exits = 0; exits < 2; exits++) {
		struct sub sub = told(3);

		sub.words[2] = calltap_record_make(CALLTAP_REC_OPEN, CALLTAP_RECORD_ID_MAX, 1000);
		put(&sub, exits ? CALLTAP_REC_EXIT : CALLTAP_REC_ENTRY, 3);
		expect(&sub, exits ? 3 : 0);
	}
}

/* The first record behind the frames may say that others were left: a jump's or an exception's, from within frame 3. */
static void frames_that_were_left_before_are_not_taken_away_again(void **state)
{
	enum { UNWIND = CALLTAP_REC_UNWIND, LANDING = CALLTAP_REC_LANDING, TAIL = CALLTAP_REC_TAIL };
	enum { EXIT = CALLTAP_REC_EXIT };
	const struct {
		struct {
			unsigned kind;
			uint32_t id;
		} records[4];
		uint32_t found;
	} cases[] = {
		{{{UNWIND, 2}, {EXIT, 3}, {EXIT, 2}}, 3},
		{{{UNWIND, 2}, {UNWIND, 1}, {EXIT, 2}}, 3},
		{{{UNWIND, 2}, {EXIT, 2}}, 0},
		{{{LANDING, 3}, {UNWIND, 2}, {EXIT, 3}, {EXIT, 2}}, 3},
		{{{LANDING, 3}, {UNWIND, 2}, {EXIT, 2}}, 0},
		{{{LANDING, 2}, {UNWIND, 2}, {EXIT, 2}}, 0},		/* the jump went elsewhere */
		{{{LANDING, 3}, {TAIL, 8}, {UNWIND, 2}, {EXIT, 3}}, 0}, /* a handler's record in between */
		{{{TAIL, 8}, {EXIT, 8}}, 0}, /* the frame has its new function already, and its old time */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int timed = 0; timed < 2; timed++) {
			struct sub sub = told(3);

			if (timed)
				put2(&sub, CALLTAP_REC_TIME, 0, 1001);
			for (int k = 0; k < 4 && cases[i].records[k].kind; k++)
				put(&sub, cases[i].records[k].kind, cases[i].records[k].id);
			expect(&sub, cases[i].found);
		}
}

static void frames_that_are_left_later_are_known(void **state)
{
	const unsigned kinds[] = {CALLTAP_REC_UNWIND, CALLTAP_REC_TAIL, CALLTAP_REC_LANDING};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct sub sub = told(3);

		put(&sub, CALLTAP_REC_ENTRY, 9);
		put(&sub, kinds[i], 1);
		expect(&sub, 3);
	}
}

static void frames_that_the_records_contradict_are_not_believed(void **state)
{
	struct sub sub = told(3);

	put(&sub, CALLTAP_REC_ENTRY, 9);
	put(&sub, CALLTAP_REC_EXIT, 9);
	put(&sub, CALLTAP_REC_EXIT, 3);
	put(&sub, CALLTAP_REC_EXIT, 1); /* there was no call of function 2 */
	expect(&sub, 0);
}

static void times_that_cannot_be_are_not_believed(void **state)
{
	struct sub sub = told(3), late = told(3), unknown = told(3);

	sub.words[3] = 15; /* the innermost, before the one around it */
	put(&sub, CALLTAP_REC_ENTRY, 9);
	expect(&sub, 0);
	late.words[3] = 5000;
	put(&late, CALLTAP_REC_ENTRY, 9);
	expect(&late, 0);
	unknown.words[7] = 0;
	put(&unknown, CALLTAP_REC_ENTRY, 9);
	expect(&unknown, 0);
}

static void what_came_before_the_first_record_that_is_kept_counts(void **state)
{
	struct sub sub = told(3);
	struct open_calls open;

	put(&sub, CALLTAP_REC_EXIT, 3);
	put(&sub, CALLTAP_REC_ENTRY, 7);
	put(&sub, CALLTAP_REC_ENTRY, 8);
	put(&sub, CALLTAP_REC_TAIL, 9);
	put(&sub, CALLTAP_REC_ENTRY, 10);
	put(&sub, CALLTAP_REC_UNWIND, 1);
	put(&sub, CALLTAP_REC_ENTRY, 11);
	play(&open, &sub, sub.ticks);
	assert_int_equal(open.count, 4);
	assert_int_equal(open.list[1].function, 2);
	assert_int_equal(open.list[2].function, 7);
	assert_int_equal(open.list[2].entry_ticks, 1002);
	assert_int_equal(open.list[3].function, 9);
	assert_int_equal(open.list[3].entry_ticks, 1004);
	assert_int_equal(open.first_ticks, sub.ticks);
	open_calls_destroy(&open);
	expect_from(&sub, 1000000, 0); /* all are left out */
}

static void other_stacks_are_their_own(void **state)
{
	struct sub sub = told(3);
	struct open_calls open;

	put2(&sub, CALLTAP_REC_STACK, 0, OTHER);
	put(&sub, CALLTAP_REC_EXIT, 1);
	put(&sub, CALLTAP_REC_ENTRY, 5);
	play(&open, &sub, sub.ticks);
	assert_int_equal(open.count, 3);
	assert_int_equal(open.stack, STACK);
	assert_int_equal(open.stack_then, OTHER);
	open_calls_destroy(&open);
}

static void behind_a_gap_nothing_is_known(void **state)
{
	for (int after = 0; after < 2; after++) {
		struct sub first = told(3), second = told(0);
		struct open_calls open;

		put(&first, CALLTAP_REC_ENTRY, 9);
		second.ticks = 2000;
		second.count = 0;
		put(&second, CALLTAP_REC_EXIT, 1);
		assert_int_equal(open_calls_begin(&open, first.words, WORDS, after ? 0 : 1500), 0);
		see(&open, &first);
		open_calls_gap(&open);
		see(&open, &second);
		open_calls_end(&open);
		assert_int_equal(open.count, after ? 3 : 0);
		open_calls_destroy(&open);
	}
}

static uint32_t brief(bool entry, uint32_t id)
{
	return (uint32_t)(entry ? CALLTAP_REC_BRIEF_ENTRY : CALLTAP_REC_BRIEF_EXIT) << CALLTAP_RECORD_ID_BITS | id;
}

static void put_halves(struct sub *sub, uint32_t early, uint32_t late)
{
	sub->words[sub->count++] = (uint64_t)late << 32 | early;
}

/* Calls that were entered without a time are known with the time in front of them; so is what is kept. */
static void calls_without_times_have_the_time_in_front(void **state)
{
	for (int kept = 0; kept < 2; kept++) {
		struct sub sub = told(1);
		struct open_calls open;
		uint64_t first, second;

		put(&sub, CALLTAP_REC_ENTRY, 2);
		first = sub.ticks;
		put_halves(&sub, brief(true, 3), brief(true, 4));
		put_halves(&sub, brief(false, 4), CALLTAP_RECORD_PAD);
		put(&sub, CALLTAP_REC_ENTRY, 5);
		second = sub.ticks;
		put_halves(&sub, brief(true, 6), 0); /* behind the last time, it may be as young as what is kept */
		sub.ticks = 2000;
		if (kept)
			put(&sub, CALLTAP_REC_EXIT, 6);
		play(&open, &sub, 1500);
		if (!kept) {
			assert_int_equal(open.count, 0); /* no record is */
			open_calls_destroy(&open);
			continue;
		}
		assert_int_equal(open.count, 4);
		assert_int_equal(open.first_ticks, second);
		for (uint32_t i = 0; i < 4; i++) {
			static const uint32_t functions[] = {1, 2, 3, 5};
			const uint64_t ticks[] = {10, first, first, second};

			assert_int_equal(open.list[i].function, functions[i]);
			assert_int_equal(open.list[i].entry_ticks, ticks[i]);
			assert_int_equal(open.list[i].timed, functions[i] != 3);
		}
		open_calls_destroy(&open);
	}
}

static void nonsense_does_no_harm(void **state)
{
	srandom(1);
	for (int round = 0; round < ROUNDS; round++) {
		struct sub sub = told((uint32_t)random() % (TOLD + 1));
		struct open_calls open;

		for (int i = 0; i < 8; i++)
			sub.words[random() % WORDS] = (uint64_t)random() << 33 ^ (uint64_t)random();
		while (sub.count < WORDS - 2)
			put(&sub, (unsigned)random() % CALLTAP_REC_KINDS, (uint32_t)random() % 4);
		assert_int_equal(
			open_calls_begin(&open, sub.words, (size_t)random() % WORDS, (uint64_t)random() % 2000), 0);
		see(&open, &sub);
		open_calls_end(&open);
		assert_true(open.count < WORDS);
		open_calls_destroy(&open);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_that_are_told_are_found),
		cmocka_unit_test(without_them_nothing_is_known),
		cmocka_unit_test(the_call_that_is_being_left_is_named_by_its_exit),
		cmocka_unit_test(frames_that_were_left_before_are_not_taken_away_again),
		cmocka_unit_test(frames_that_are_left_later_are_known),
		cmocka_unit_test(frames_that_the_records_contradict_are_not_believed),
		cmocka_unit_test(times_that_cannot_be_are_not_believed),
		cmocka_unit_test(what_came_before_the_first_record_that_is_kept_counts),
		cmocka_unit_test(other_stacks_are_their_own),
		cmocka_unit_test(behind_a_gap_nothing_is_known),
		cmocka_unit_test(calls_without_times_have_the_time_in_front),
		cmocka_unit_test(nonsense_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
