/* The line through the clock samples of agents: rates, far counters, noise, and pairs that cannot be true. */
#include <math.h>

#include "support.h"

#define BASE_NS 5000000000u

static void one_pair_says_no_rate(void **state)
{
	struct clock_line line = {0};

	assert_true(clock_line_add(&line, 1000, BASE_NS));
	assert_true(clock_line_rate(&line) == 0);
	assert_int_equal(clock_line_ticks(&line, BASE_NS + 1000000), 1000);
}

static void the_cpus_word_is_taken_until_there_is_better(void **state)
{
	struct clock_line line = {.hz = 62500000};

	/* But from where it counts, no pair has said. */
	assert_int_equal(clock_line_ticks(&line, BASE_NS), 0);
	assert_true(clock_line_add(&line, 1000, BASE_NS));
	assert_true(fabs(clock_line_rate(&line) - 0.0625) < 1e-12);
	assert_int_equal(clock_line_ticks(&line, BASE_NS + 16000), 2000);
	/* A millisecond is too short to know better, a second is not. */
	assert_true(clock_line_add(&line, 1000 + 70000, BASE_NS + 1000000));
	assert_true(fabs(clock_line_rate(&line) - 0.0625) < 1e-12);
	assert_true(clock_line_add(&line, 1000 + 70000000, BASE_NS + 1000000000));
	assert_true(fabs(clock_line_rate(&line) - 0.07) < 1e-9);
}

static void far_counters_lose_no_digit(void **state)
{
	const uint64_t start = (uint64_t)1 << 63;
	struct clock_line line = {0};

	for (uint64_t i = 0; i <= 10; i++)
		assert_true(clock_line_add(&line, start + 2000000000 * i, BASE_NS + 1000000000 * i));
	assert_int_equal(clock_line_ticks(&line, BASE_NS + 1), start + 2);
	assert_int_equal(clock_line_ticks(&line, BASE_NS + 3500000000u), start + 7000000000u);
	assert_int_equal(clock_line_ticks(&line, BASE_NS - 500000000u), start - 1000000000u);
}

/* Each pair is up to 50 us off; the line through a thousand is not. */
static void noise_evens_out(void **state)
{
	struct clock_line line = {0};
	uint64_t noise = 88172645463325252u;

	for (uint64_t i = 0; i < 1000; i++) {
		noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
		assert_true(clock_line_add(&line, 10000000 * i + noise % 50000, BASE_NS + 10000000 * i));
	}
	assert_true(fabs(clock_line_rate(&line) - 1) < 1e-6);
}

static void what_does_not_grow_is_refused(void **state)
{
	struct clock_line line = {0}, before;

	assert_true(clock_line_add(&line, 1000, BASE_NS));
	assert_true(clock_line_add(&line, 2000, BASE_NS + 1000));
	before = line;
	assert_false(clock_line_add(&line, 2000, BASE_NS + 2000));
	assert_false(clock_line_add(&line, 3000, BASE_NS + 1000));
	assert_false(clock_line_add(&line, 0, 0));
	assert_memory_equal(&line, &before, sizeof(line));
}

static void no_nonsense_comes_out(void **state)
{
	const uint64_t words[] = {0, 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};

	for (size_t i = 0; i + 1 < 5; i++)
		for (size_t k = 0; k + 1 < 5; k++) {
			struct clock_line line = {0};
			double rate;

			assert_true(clock_line_add(&line, words[i], words[k]));
			assert_true(clock_line_add(&line, words[i + 1], words[k + 1]));
			rate = clock_line_rate(&line);
			assert_true(rate == 0 || (rate >= 1e-6 && rate <= 100));
			for (size_t m = 0; m < 5; m++)
				(void)clock_line_ticks(&line, words[m]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_pair_says_no_rate),
		cmocka_unit_test(the_cpus_word_is_taken_until_there_is_better),
		cmocka_unit_test(far_counters_lose_no_digit),
		cmocka_unit_test(noise_evens_out),
		cmocka_unit_test(what_does_not_grow_is_refused),
		cmocka_unit_test(no_nonsense_comes_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
