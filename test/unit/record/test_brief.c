/* Which functions' calls lose their times, from sub-buffers made by hand; and the tick's rows. */
#include <stdlib.h>
#include <unistd.h>

#include <calltap/abi/record.h>
#include <host/brief/brief.h>
#include <host/brief/late.h>
#include <host/brief/ticker.h>
#include <host/instance/instance.h>
#include <host/target/clock.h>

#include "support.h"

#define SHORT	  1000u /* ticks */
#define WORDS_MAX 8192

static struct brief *brief;
static struct brief_calls *calls;
static uint64_t words[WORDS_MAX], now = 1000;
static size_t count;

static int begin_ticks(uint64_t tick_ns)
{
	const struct brief_options options = {.small = 64, .tick_ns = tick_ns, .every = 2};

	assert_int_equal(brief_create(&brief, &options), 0);
	assert_int_equal(brief_start(brief, SHORT, 1, NULL, NULL), 0);
	calls = NULL;
	count = 0;
	return 0;
}

static int begin(void **state)
{
	return begin_ticks(100000);
}

/* Ticks so far apart that the time between them is many times SHORT, by each CPU's clock (the slowest has 10 MHz). */
static int begin_slowly(void **state)
{
	return begin_ticks(20000000);
}

static int end(void **state)
{
	free(calls);
	brief_destroy(brief);
	return 0;
}

static void put(enum calltap_record_kind kind, uint32_t id, uint64_t later)
{
	assert_true(count < WORDS_MAX);
	now += later;
	words[count++] = calltap_record_make(kind, id, (uint32_t)now);
}

static void call(uint32_t id, uint64_t ticks)
{
	put(CALLTAP_REC_ENTRY, id, 10);
	put(CALLTAP_REC_EXIT, id, ticks);
}

static uint32_t half(enum calltap_record_kind kind, uint32_t id)
{
	return (uint32_t)kind << CALLTAP_RECORD_ID_BITS | id;
}

static void put_halves(uint32_t first, uint32_t second)
{
	assert_true(count < WORDS_MAX);
	words[count++] = (uint64_t)second << 32 | first;
}

static void look(void)
{
	brief_look(brief, &calls, words, count, 1000);
	count = 0;
}

static void short_and_often_becomes_brief(void **state)
{
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS - 1; i++)
		call(1, 50);
	look();
	assert_int_equal(brief_count(brief), 0);
	call(1, 50);
	look();
	assert_int_equal(brief_count(brief), 1);
}

static void what_is_long_at_times_stays(void **state)
{
	for (uint32_t i = 0; i < 10 * RECORD_SHORT_CALLS; i++)
		call(1, i % 50 ? 50 : SHORT);
	look();
	assert_int_equal(brief_count(brief), 0);
}

static void callers_are_told_from_what_they_call(void **state)
{
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++) {
		put(CALLTAP_REC_ENTRY, 1, 10);
		call(2, 50);
		put(CALLTAP_REC_EXIT, 1, 2 * SHORT);
	}
	look();
	assert_int_equal(brief_count(brief), 1); /* 2 */
	/* Those that have no time now say nothing of it, nor of the caller's order. */
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++) {
		put(CALLTAP_REC_ENTRY, 3, 10);
		put_halves(half(CALLTAP_REC_BRIEF_ENTRY, 2), half(CALLTAP_REC_BRIEF_EXIT, 2));
		put(CALLTAP_REC_EXIT, 3, 100);
	}
	look();
	assert_int_equal(brief_count(brief), 2);
}

static void samples_bring_it_back(void **state)
{
	brief_begin(brief, 1, 40, "");
	assert_int_equal(brief_count(brief), 1);
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++) {
		put_halves(half(CALLTAP_REC_BRIEF_ENTRY, 1), half(CALLTAP_REC_BRIEF_EXIT, 1));
		put_halves(half(CALLTAP_REC_BRIEF_ENTRY, 1), CALLTAP_RECORD_PAD);
		put(CALLTAP_REC_EXIT, 1, 5 * SHORT); /* behind a tick: when it was entered is not known */
		call(1, i % 10 ? 50 : SHORT);
	}
	look();
	assert_int_equal(brief_count(brief), 0);
}

/* Where ticks come within calls, these are long: no sample is needed for that.  Now and then one may. */
static void ticks_bring_it_back(void **state)
{
	brief_begin(brief, 1, 40, "");
	brief_begin(brief, 2, 40, "");
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++) {
		put_halves(half(CALLTAP_REC_BRIEF_ENTRY, 1),
			   i % 20 ? half(CALLTAP_REC_BRIEF_EXIT, 1) : CALLTAP_RECORD_PAD);
		if (i % 20 == 0)
			put(CALLTAP_REC_EXIT, 1, 5 * SHORT);
		put_halves(half(CALLTAP_REC_BRIEF_ENTRY, 2),
			   i % 40 ? half(CALLTAP_REC_BRIEF_EXIT, 2) : CALLTAP_RECORD_PAD);
		if (i % 40 == 0)
			put(CALLTAP_REC_EXIT, 2, 5 * SHORT);
		look();
	}
	assert_int_equal(brief_count(brief), 1); /* 2 */
}

/* A tick that a callee has met first came within the call, too. */
static void ticks_of_callees_count(void **state)
{
	brief_begin(brief, 1, 40, "");
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++) {
		call(2, SHORT);
		put_halves(half(CALLTAP_REC_BRIEF_ENTRY, 1), CALLTAP_RECORD_PAD);
		put(CALLTAP_REC_ENTRY, 2, 10000000);
		put(CALLTAP_REC_EXIT, 2, SHORT);
		put_halves(half(CALLTAP_REC_BRIEF_EXIT, 1), CALLTAP_RECORD_PAD);
		look();
	}
	assert_int_equal(brief_count(brief), 0);
}

/* How many sub-buffers with one call each are drained until the function becomes brief, step_ns apart. */
static uint32_t drained_until_brief(uint32_t id, uint64_t step_ns)
{
	static struct ring_reader reader;
	static uint64_t now_ns;
	uint32_t before = brief_count(brief), drained = 0;

	for (; brief_count(brief) == before && drained < 100 * RECORD_SHORT_CALLS; drained++) {
		call(id, 50);
		peek_drained(brief, &reader, words, (uint32_t)count, 1000, now_ns += step_ns);
		count = 0;
	}
	calls = reader.calls; /* for end() */
	return drained;
}

/* Of a ring that fills fast a part of the sub-buffers is looked at, and more of them again when something changes. */
static void a_part_of_what_is_drained_is_looked_at(void **state)
{
	uint32_t first = drained_until_brief(1, 1000), next = drained_until_brief(2, 1000);

	assert_in_range(first, 5 * RECORD_SHORT_CALLS, 16 * RECORD_SHORT_CALLS);
	assert_in_range(next, first + 1, 16 * RECORD_SHORT_CALLS);
	assert_int_equal(drained_until_brief(3, 10000000), RECORD_SHORT_CALLS);
}

/* The choice goes on while all calls have their times, and counts again afterwards. */
static void exact_for_a_while(void **state)
{
	brief_begin(brief, 7, 10, "small");
	brief_set_exact(brief, true);
	assert_int_equal(brief_count(brief), 0);
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++)
		call(1, 50);
	look();
	brief_begin(brief, 8, 10, "small, too");
	assert_int_equal(brief_count(brief), 0);
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++)
		call(7, 2 * SHORT);
	look();
	brief_set_exact(brief, false);
	assert_int_equal(brief_count(brief), 2); /* 1 and 8 */
}

/* What a further instance has chosen is a bit of its own, and goes with it. */
static void further_ones(void **state)
{
	struct brief *one, *other, *first = brief;
	struct brief_calls *none = NULL;

	assert_int_equal(brief_create_further(&one, first, 3, SHORT), 0);
	assert_int_equal(brief_create_further(&other, first, 15, SHORT), 0);
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++)
		call(9, 50);
	brief_look(one, &none, words, count, 1000);
	free(none);
	assert_int_equal(brief_further(first, 9), 1 << 2);
	none = NULL;
	brief_look(other, &none, words, count, 1000);
	free(none);
	assert_int_equal(brief_further(first, 9), 1 << 2 | 1 << 14);
	assert_int_equal(brief_count(first), 0);
	brief_set_exact(one, true);
	assert_int_equal(brief_further(first, 9), 1 << 14);
	brief_set_exact(one, false);
	brief_destroy(other);
	assert_int_equal(brief_further(first, 9), 1 << 2);
	brief_destroy(one);
	assert_int_equal(brief_further(first, 9), 0);
}

static void other_options(void **state)
{
	brief_set_short(brief, 40);
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++)
		call(1, 50);
	look();
	assert_int_equal(brief_count(brief), 0);
	brief_set_short(brief, 60);
	for (uint32_t i = 0; i < 100 * RECORD_SHORT_CALLS; i++) {
		call(1, 50);
		if (count > WORDS_MAX - 2)
			look();
	}
	look();
	assert_int_equal(brief_count(brief), 1);
}

/* Records that were not looked at may have ended a call that was open before them: a later exit closes no such call. */
static void a_gap_forgets_open_calls(void **state)
{
	for (uint32_t i = 0; i < 2 * RECORD_SHORT_CALLS; i++) {
		put(CALLTAP_REC_ENTRY, 1, 10);
		look();
		brief_skip(calls);
		put(CALLTAP_REC_EXIT, 1, 10);
		look();
	}
	assert_int_equal(brief_count(brief), 0);
	assert_int_equal(brief_changes(brief), 0);
	for (uint32_t i = 0; i < RECORD_SHORT_CALLS; i++)
		call(1, 50);
	look();
	assert_int_equal(brief_changes(brief), 1);
}

/* Any time that was within a row is within one, however many rows came after it. */
static void late_rows_are_joined(void **state)
{
	struct late *late = calloc(1, sizeof(*late));
	const uint32_t all = 5 * LATE_MAX + 3;

	assert_non_null(late);
	for (uint32_t n = 0; n < all; n++) {
		const struct calltap_file_late row = {100 * n, 100 * n + 50};

		if (n == LATE_MAX)
			late->written = LATE_MAX - 1;
		late_add(late, &row);
		if (n == LATE_MAX)
			assert_int_equal(late->written, LATE_MAX / 2 - 1);
		assert_true(late->count <= LATE_MAX);
	}
	for (uint32_t n = 0, at = 0; n < all; n++) {
		while (at < late->count && late->rows[at].to < 100 * n + 50)
			at++;
		assert_true(at < late->count && late->rows[at].from <= 100 * n);
	}
	assert_int_equal(late->rows[late->count - 1].from, 100 * (all - 1));
	assert_true(late->count > LATE_MAX / 2);
	free(late);
}

static void large_ones_do_not_begin_so(void **state)
{
	brief_begin(brief, 1, 65, "");
	brief_begin(brief, 2, 0, "");
	brief_begin(brief, 1u << 20, 8, ""); /* beyond the file */
	assert_int_equal(brief_count(brief), 0);
}

static void what_is_known_comes_first(void **state)
{
	static const struct record_known known[] = {{(char *)"a_long_one", false}, {(char *)"short_one", true}};
	const struct brief_options options = {
		.known = known, .known_count = 2, .small = 64, .tick_ns = 100000, .every = 2};
	struct brief *other;

	assert_int_equal(brief_create(&other, &options), 0);
	brief_begin(other, 1, 8, "a_long_one");
	assert_int_equal(brief_count(other), 0);
	brief_begin(other, 2, 4000, "short_one");
	brief_begin(other, 3, 4000, "another");
	assert_int_equal(brief_count(other), 1);
	brief_begin(other, 4, 8, "another");
	assert_int_equal(brief_count(other), 2);
	brief_destroy(other);
}

/* Anything may stand in a ring. */
static void nonsense_is_taken(void **state)
{
	uint64_t noise = 88172645463325252u;

	for (int round = 0; round < 200; round++) {
		for (count = 0; count < WORDS_MAX; count++) {
			noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
			words[count] = noise;
		}
		look();
	}
	for (count = 0; count < WORDS_MAX; count++)
		words[count] = calltap_record_make(CALLTAP_REC_ENTRY, 7, (uint32_t)count);
	look();
	for (count = 0; count < WORDS_MAX; count++)
		words[count] = calltap_record_make(CALLTAP_REC_EXIT, 7, (uint32_t)count);
	look();
}

/* A value that stays for longer than the span is a row, which holds all of that time. */
static void check_late(bool by_ns)
{
	uint64_t word = 0, before, after;
	struct calltap_file_late *rows;
	struct ticker *ticker;
	size_t rows_count;
	uint64_t until;
	int error;

	/* No tick of the thread's own comes meanwhile. */
	assert_int_equal(ticker_start(&ticker, &word, 900000000, by_ns, false, NULL), 0);
	before = word;
	assert_true(before != 0 && ticker_span(ticker) > 0);
	rows = ticker_take(ticker, &rows_count, &until, &error);
	assert_int_equal(error, 0);
	assert_int_equal(rows_count, 0); /* not late */
	assert_null(rows);
	assert_true(word != before);
	ticker_stop(ticker);
	/* A span of two nanoseconds: each is late. */
	assert_int_equal(ticker_start(&ticker, &word, 1, by_ns, false, NULL), 0);
	before = word;
	usleep(2000);
	after = word; /* before the take: the ticker's thread goes on after it */
	rows = ticker_take(ticker, &rows_count, &until, &error);
	assert_true(rows_count > 0 && rows[0].from <= before && rows[rows_count - 1].to >= after);
	for (size_t i = 1; i < rows_count; i++)
		assert_true(rows[i].from <= rows[i - 1].to); /* no time between them is in none */
	free(rows);
	ticker_stop(ticker);
}

/* Points in time at random: no step is shorter than half of what it is on average, none is like the one before. */
static void moments_are_at_random(void **state)
{
	uint64_t word = 0, last, step = 0, alike = 0, seen = 0;
	struct calltap_file_late *rows;
	struct ticker *ticker;
	size_t rows_count;
	uint64_t until;
	int error;

	assert_int_equal(ticker_start(&ticker, &word, 1000000, true, true, NULL), 0);
	for (last = __atomic_load_n(&word, __ATOMIC_SEQ_CST); seen < 30;) {
		uint64_t present = __atomic_load_n(&word, __ATOMIC_SEQ_CST);

		if (present == last)
			continue;
		if (seen++) {
			assert_true(present - last >= 500000);
			alike += present - last > step - step / 1000 && present - last < step + step / 1000;
		}
		step = present - last;
		last = present;
	}
	assert_true(alike < 10);
	assert_true(ticker_stays(ticker).mean >= 500000 && ticker_stays(ticker).longest >= ticker_stays(ticker).mean);
	usleep(5000);
	rows = ticker_take(ticker, &rows_count, &until, &error);
	assert_null(rows);
	ticker_stop(ticker);
}

/* Where no thread looks at the word it stands still, which makes no row; when one does, it goes on. */
static void it_rests_while_nobody_looks(void **state)
{
	struct calltap_board board = {0};
	struct calltap_file_late *rows;
	uint64_t word = 0, value, woken, until;
	struct ticker *ticker;
	size_t rows_count;
	int error;

	assert_int_equal(ticker_start(&ticker, &word, 100000, true, false, &board), 0);
	while (!__atomic_load_n(&board.ticker_asleep, __ATOMIC_SEQ_CST))
		usleep(1000);
	free(ticker_take(ticker, &rows_count, &until, &error));
	value = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
	usleep(50000);
	ticker_look(ticker);
	assert_true(__atomic_load_n(&word, __ATOMIC_SEQ_CST) == value);
	__atomic_store_n(&board.tick_seen, 1, __ATOMIC_SEQ_CST);
	woken = clock_now_ns();
	ticker_look(ticker);
	assert_true(__atomic_load_n(&word, __ATOMIC_SEQ_CST) >= woken);
	assert_int_equal(__atomic_load_n(&board.ticker_asleep, __ATOMIC_SEQ_CST), 0);
	rows = ticker_take(ticker, &rows_count, &until, &error);
	for (size_t i = 0; i < rows_count; i++)
		assert_true(rows[i].from >= woken);
	free(rows);
	/* It may fall asleep at once again on a busy machine; who looks wakes it up. */
	for (unsigned changes = 0; changes < 20;) {
		value = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
		__atomic_store_n(&board.tick_seen, 1, __ATOMIC_SEQ_CST);
		ticker_look(ticker);
		usleep(1000);
		changes += __atomic_load_n(&word, __ATOMIC_SEQ_CST) != value;
	}
	ticker_stop(ticker);
}

static void late_ticks_are_rows(void **state)
{
	check_late(false);
	check_late(true);
}

/* An emulated target's clock: what is short in its ticks is known when its rate is, and nothing is told before. */
static void nothing_is_short_without_a_rate(void **state)
{
	const struct brief_options options = {.small = 64, .tick_ns = 100000, .every = 2};
	struct clock_line line = {0};

	calls = NULL;
	count = 0;
	assert_int_equal(brief_create(&brief, &options), 0);
	assert_int_equal(brief_start(brief, SHORT, 0, &line, NULL), 0);
	assert_int_equal(brief_write(brief, NULL), 0);
	for (unsigned i = 0; i < 2 * RECORD_SHORT_CALLS; i++)
		call(7, 10);
	look();
	assert_int_equal(brief_count(brief), 0);
	end(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(short_and_often_becomes_brief, begin, end),
		cmocka_unit_test_setup_teardown(ticks_bring_it_back, begin_slowly, end),
		cmocka_unit_test_setup_teardown(ticks_of_callees_count, begin, end),
		cmocka_unit_test_setup_teardown(exact_for_a_while, begin, end),
		cmocka_unit_test_setup_teardown(other_options, begin, end),
		cmocka_unit_test_setup_teardown(further_ones, begin, end),
		cmocka_unit_test_setup_teardown(a_gap_forgets_open_calls, begin, end),
		cmocka_unit_test_setup_teardown(a_part_of_what_is_drained_is_looked_at, begin, end),
		cmocka_unit_test(late_rows_are_joined),
		cmocka_unit_test_setup_teardown(what_is_long_at_times_stays, begin, end),
		cmocka_unit_test_setup_teardown(callers_are_told_from_what_they_call, begin, end),
		cmocka_unit_test_setup_teardown(samples_bring_it_back, begin, end),
		cmocka_unit_test_setup_teardown(large_ones_do_not_begin_so, begin, end),
		cmocka_unit_test(what_is_known_comes_first),
		cmocka_unit_test_setup_teardown(nonsense_is_taken, begin, end),
		cmocka_unit_test(nothing_is_short_without_a_rate),
		cmocka_unit_test(late_ticks_are_rows),
		cmocka_unit_test(it_rests_while_nobody_looks),
		cmocka_unit_test(moments_are_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
