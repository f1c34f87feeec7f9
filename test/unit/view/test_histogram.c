/*
 * Unit tests of the histogram and of the table of open calls.
 */
#include <stdlib.h>

#include "support.h"

#include "host/view/active.h"
#include "host/view/histogram.h"

static uint64_t alone(uint64_t value)
{
	struct histogram histogram = {0};
	uint64_t answer;

	assert_int_equal(histogram_add(&histogram, value), 0);
	answer = histogram_percentile(&histogram, 500);
	assert_int_equal(answer, histogram_percentile(&histogram, 990));
	histogram_clear(&histogram);
	return answer;
}

static void every_value_is_answered_within_two_percent(void **state)
{
	for (uint64_t value = 0; value < 64; value++)
		assert_int_equal(alone(value), value);
	for (uint64_t value = 64; value < UINT64_MAX / 3; value += value / 37 + 1) {
		uint64_t answer = alone(value);
		uint64_t off = answer > value ? answer - value : value - answer;

		assert_true(off <= value / 64 + 1 && off * 50 <= value);
	}
	assert_true(alone(UINT64_MAX) > UINT64_MAX / 64 * 62);
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void percentiles_match_a_sorted_list(void **state)
{
	enum { COUNT = 20000 };
	uint64_t *values = malloc(COUNT * sizeof(*values)), seed = 12345;
	struct histogram histogram = {0};

	assert_non_null(values);
	for (int i = 0; i < COUNT; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		values[i] = (seed >> 33) >> (seed >> 20) % 28;
		assert_int_equal(histogram_add(&histogram, values[i]), 0);
	}
	qsort(values, COUNT, sizeof(*values), compare);
	for (unsigned permille = 1; permille <= 1000; permille++) {
		uint64_t want = values[(size_t)COUNT * permille / 1000 - 1];
		uint64_t answer = histogram_percentile(&histogram, permille);
		uint64_t off = answer > want ? answer - want : want - answer;

		assert_true(off * 50 <= want + 49);
	}
	histogram_clear(&histogram);
	free(values);
}

/* Joined histograms are that of all values, whichever has the smaller or the greater ones. */
static void joined_histograms_have_all_values(void **state)
{
	struct histogram parts[3] = {{0}}, joined = {0}, all = {0};
	uint32_t at = 0, also_at = 0;
	uint64_t least, count, also_least, also_count;

	for (uint64_t i = 1; i < 3000; i++) {
		uint64_t value = (i * 7919 % 1000) << (i % 3 * 12);

		assert_int_equal(histogram_add(&parts[i % 3], value), 0);
		assert_int_equal(histogram_add(&all, value), 0);
	}
	assert_int_equal(histogram_join(&joined, &(struct histogram){0}), 0);
	for (int i = 2; i >= 0; i--)
		assert_int_equal(histogram_join(&joined, &parts[i]), 0);
	assert_int_equal(joined.total, all.total);
	while (histogram_next(&all, &at, &least, &count)) {
		assert_true(histogram_next(&joined, &also_at, &also_least, &also_count));
		assert_int_equal(least, also_least);
		assert_int_equal(count, also_count);
	}
	assert_false(histogram_next(&joined, &also_at, &also_least, &also_count));
	for (int i = 0; i < 3; i++)
		histogram_clear(&parts[i]);
	histogram_clear(&joined);
	histogram_clear(&all);
}

static void many_values_are_as_each_of_them(void **state)
{
	struct histogram many = {0}, each = {0};

	for (uint64_t value = 1; value < 1000000; value *= 3) {
		assert_int_equal(histogram_add_many(&many, value, value % 7), 0);
		for (uint64_t i = 0; i < value % 7; i++)
			assert_int_equal(histogram_add(&each, value), 0);
	}
	assert_int_equal(many.total, each.total);
	for (uint64_t rank = 1; rank <= each.total; rank++)
		assert_int_equal(histogram_at(&many, rank), histogram_at(&each, rank));
	assert_int_equal(histogram_at(&many, 1), 1);
	assert_int_equal(histogram_at(&many, many.total), histogram_percentile(&many, 1000));
	assert_int_equal(histogram_at(&many, many.total + 1), 0);
	histogram_clear(&many);
	histogram_clear(&each);
}

static void an_empty_histogram_answers_zero(void **state)
{
	struct histogram histogram = {0};

	assert_int_equal(histogram_percentile(&histogram, 990), 0);
	histogram_clear(&histogram);
}

/* The buckets in turn have all values, and the floor lets as many pass as it may, by whole buckets. */
static void buckets_and_floors_match_a_sorted_list(void **state)
{
	enum { COUNT = 5000 };
	struct histogram histogram = {0};
	uint64_t values[COUNT], seed = 7, least, count, last = 0, sum = 0, above;

	for (int i = 0; i < COUNT; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		values[i] = seed >> 20 >> (seed >> 58);
		assert_int_equal(histogram_add(&histogram, values[i]), 0);
	}
	for (uint32_t at = 0; histogram_next(&histogram, &at, &least, &count); sum += count) {
		assert_true(!sum || least > last);
		last = least;
	}
	assert_int_equal(sum, COUNT);
	for (uint64_t most = 0; most <= COUNT; most = most * 2 + 1) {
		uint64_t floor = histogram_floor(&histogram, most);

		above = 0;
		for (int i = 0; i < COUNT; i++)
			above += values[i] >= floor;
		assert_true(above <= most);
		above = 0; /* a value of the next lower bucket would be one too many */
		for (int i = 0; i < COUNT; i++)
			above += values[i] >= floor - floor / 32 - 1;
		assert_true(!floor || above > most);
	}
	assert_int_equal(histogram_floor(&histogram, COUNT), 0);
	histogram_clear(&histogram);
}

static void open_calls_are_counted_per_thread_and_row(void **state)
{
	enum { THREADS = 50, ROWS = 41 };
	struct active active = {0};
	uint32_t model[THREADS][ROWS] = {{0}}, seed = 1, count;

	for (int step = 0; step < 400000; step++) {
		uint32_t thread, row;

		seed = seed * 1664525u + 1013904223u;
		thread = (seed >> 8) % THREADS;
		row = (seed >> 16) % ROWS;
		if (seed >> 31 || !model[thread][row]) {
			assert_int_equal(active_enter(&active, thread, row, &count), 0);
			assert_int_equal(count, ++model[thread][row]);
		} else {
			assert_int_equal(active_leave(&active, thread, row), --model[thread][row]);
		}
	}
	for (uint32_t thread = 0; thread < THREADS; thread++) {
		for (uint32_t row = 0; row < ROWS; row++) {
			while (model[thread][row])
				assert_int_equal(active_leave(&active, thread, row), --model[thread][row]);
		}
	}
	assert_int_equal(active.used, 0);
	assert_int_equal(active_leave(&active, 1, 1), 0);
	active_clear(&active);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_is_answered_within_two_percent),
		cmocka_unit_test(percentiles_match_a_sorted_list),
		cmocka_unit_test(joined_histograms_have_all_values),
		cmocka_unit_test(many_values_are_as_each_of_them),
		cmocka_unit_test(an_empty_histogram_answers_zero),
		cmocka_unit_test(buckets_and_floors_match_a_sorted_list),
		cmocka_unit_test(open_calls_are_counted_per_thread_and_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
