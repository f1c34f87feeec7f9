/*
 * Unit tests of the Mann-Whitney test against published values, of the choice among many tests, and of samples.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "host/diff/rank.h"
#include "host/diff/sample.h"

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

static void assert_near(double got, double wanted, double off)
{
	if (fabs(got - wanted) > off)
		print_error("%.10g is not %.10g\n", got, wanted);
	assert_true(fabs(got - wanted) <= off);
}

/* Hollander and Wolfe (1973), page 69: R's example(wilcox.test) says W = 35, p = 0.1272 for one side. */
static void small_samples_are_tested_exactly(void **state)
{
	static const uint64_t at_term[] = {80, 83, 189, 104, 145, 138, 191, 164, 73, 146};
	static const uint64_t earlier[] = {115, 88, 90, 74, 121};
	struct rank_result result;

	assert_int_equal(rank_test(&result, earlier, 5, at_term, 10, RANK_EXACT_MAX), 0);
	assert_near(result.u, 35, 0);
	assert_near(result.share, 0.7, 1e-12);
	assert_near(result.p, 2 * 0.1272, 1e-4);
	/* The sides change places. */
	assert_int_equal(rank_test(&result, at_term, 10, earlier, 5, RANK_EXACT_MAX), 0);
	assert_near(result.u, 15, 0);
	assert_near(result.p, 2 * 0.1272, 1e-4);
}

/*
 * R's airquality, ozone in May and in August: wilcox.test(Ozone ~ Month) says W = 127.5, p = 0.0001208, with ties and
 * the correction for continuity.  W counts the pairs in which May has more.
 */
static void large_samples_are_tested_by_the_normal_approximation(void **state)
{
	static const uint64_t may[] = {41, 36, 12, 18, 28, 23, 19, 8, 7,  16, 11, 14,  18,
				       14, 34, 6,  30, 11, 1,  11, 4, 32, 23, 45, 115, 37};
	static const uint64_t august[] = {39, 9,  16, 78, 35, 66, 122, 89,  110, 44, 28,  65, 22,
					  59, 23, 31, 44, 21, 9,  45,  168, 73,	 76, 118, 84, 85};
	struct rank_result result;

	assert_int_equal(rank_test(&result, may, COUNT(may), august, COUNT(august), RANK_EXACT_MAX), 0);
	assert_near(result.u, 26.0 * 26 - 127.5, 0);
	assert_near(result.p, 0.0001208, 5e-8);
	assert_near(result.inflation, 1, 0);
}

/* All 6 choose 3 = 20 ways; sums of ranks by hand: values 1 1 2 2 2 3 have ranks 1.5 1.5 4 4 4 6. */
static void ties_are_exact_in_small_samples(void **state)
{
	static const uint64_t a[] = {1, 1, 2}, b[] = {2, 2, 3}, equal[] = {7, 7, 7};
	struct rank_result result;

	/* B's sum is 14 of an expected 10.5.  As far: {1.5 1.5 4} in 3 ways, {4 4 6} in 3 ways; no other sum is. */
	assert_int_equal(rank_test(&result, a, 3, b, 3, RANK_EXACT_MAX), 0);
	assert_near(result.p, 6.0 / 20, 1e-12);
	assert_int_equal(rank_test(&result, equal, 3, equal, 3, RANK_EXACT_MAX), 0);
	assert_near(result.p, 1, 0);
	assert_near(result.share, 0.5, 0);
	assert_int_equal(rank_test(&result, equal, 3, equal, 3, 0), 0); /* no variance, so nothing is claimed */
	assert_near(result.p, 1, 0);
	assert_int_equal(rank_test(&result, a, 3, b, 0, RANK_EXACT_MAX), 0);
	assert_near(result.p, 1, 0);
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

#define SIZE   256u
#define ROUNDS 400

/*
 * How many of ROUNDS pairs of samples alike are said to differ at 5 %; steady: values are independent, else each
 * sample has long times in which it is slow.
 */
static unsigned false_claims(bool steady, double *inflation)
{
	uint64_t seed = 4711, values[2][SIZE];
	unsigned claims = 0;

	*inflation = 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct rank_result result;

		for (unsigned side = 0; side < 2; side++) {
			uint64_t pace = 0;

			for (unsigned i = 0; i < SIZE; i++) {
				if (!steady && i % (SIZE / 8) == 0)
					pace = next(&seed) % 1000;
				values[side][i] = pace + next(&seed) % 1000;
			}
		}
		assert_int_equal(rank_test(&result, values[0], SIZE, values[1], SIZE, RANK_EXACT_MAX), 0);
		claims += result.p <= 0.05;
		*inflation += result.inflation / ROUNDS;
	}
	return claims;
}

/* The seed is fixed, so the numbers are, too: about 5 % of 400 = 20; the inflation of both sides' worst makes it less.
 */
static void samples_alike_are_seldom_said_to_differ(void **state)
{
	double steady, drifting;
	unsigned claims = false_claims(true, &steady);

	assert_true(claims >= 2 && claims <= 26);
	assert_true(steady < 1.6);
	/* Of the second kind more than half would be claimed if the values were taken to be independent. */
	claims = false_claims(false, &drifting);
	assert_true(claims <= 30);
	assert_true(drifting > 4 * steady);
}

static void a_shift_is_found(void **state)
{
	uint64_t seed = 99, a[SIZE], b[SIZE];
	struct rank_result result;

	for (unsigned i = 0; i < SIZE; i++) {
		a[i] = 1000 + next(&seed) % 1000;
		b[i] = 1300 + next(&seed) % 1000;
	}
	assert_int_equal(rank_test(&result, a, SIZE, b, SIZE, RANK_EXACT_MAX), 0);
	assert_true(result.p < 1e-6);
	/* P(b > a) = 1 - 0.7^2 / 2 = 0.755 */
	assert_near(result.share, 0.755, 0.05);
}

/*
 * 10 of 1000 and 40 of 1000: by hand 25 expected, variance 50 / 4 * 1950 / 1999 = 12.194, z = 14.5 / 3.4920 = 4.1524,
 * two-sided p = 3.29e-5.
 */
static void tails_are_compared(void **state)
{
	assert_near(rank_tail(10, 1000, 40, 1000, 1), 3.29e-5, 2e-7);
	assert_near(rank_tail(40, 1000, 10, 1000, 1), 3.29e-5, 2e-7);
	assert_true(rank_tail(10, 1000, 40, 1000, 4) > 0.03); /* z / 2 */
	assert_near(rank_tail(20, 1000, 20, 1000, 1), 1, 0);
	assert_near(rank_tail(0, 1000, 0, 1000, 1), 1, 0);
}

/* Benjamini and Hochberg (1995), the example with 15 p: at 5 % the four smallest are claimed. */
static void many_tests_are_adjusted(void **state)
{
	static const double p[] = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
				   0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
	double q[COUNT(p)];
	unsigned claims = 0;

	assert_int_equal(rank_adjust(q, p, COUNT(p)), 0);
	for (unsigned i = 0; i < COUNT(p); i++)
		claims += q[i] <= 0.05;
	assert_int_equal(claims, 4);
	assert_near(q[0], 0.0015, 1e-12);
	assert_near(q[3], 0.0095 * 15 / 4, 1e-12);
	assert_near(q[5], 0.0298 * 15 / 7, 1e-12); /* no greater than the next ones' */
	assert_near(q[14], 1, 0);
	assert_int_equal(rank_adjust(q, p, 0), 0);
}

/* A sample of a million: in order, as many from each tenth, and the same the next time. */
static void samples_are_even_and_bounded(void **state)
{
	struct sample sample = {0}, again = {0};
	unsigned tenths[10] = {0};

	for (uint64_t i = 0; i < 1000000; i++) {
		assert_int_equal(sample_add(&sample, i), 0);
		assert_int_equal(sample_add(&again, i), 0);
		assert_true(sample.count <= SAMPLE_MAX);
		if (i == 400)
			assert_int_equal(sample.count, 401); /* all of few */
	}
	assert_true(sample.count >= SAMPLE_MAX / 2 - 1);
	assert_int_equal(sample.count, again.count);
	for (uint32_t i = 0; i < sample.count; i++) {
		assert_true(!i || sample.values[i] > sample.values[i - 1]);
		assert_int_equal(sample.values[i], again.values[i]);
		tenths[sample.values[i] / 100000]++;
	}
	for (unsigned i = 0; i < 10; i++)
		assert_true(tenths[i] + 2 >= sample.count / 10 && tenths[i] <= sample.count / 10 + 2);
	sample_clear(&sample);
	sample_clear(&again);
}

/* Of values that alternate, both kinds are in the sample. */
static void samples_have_no_rhythm(void **state)
{
	struct sample sample = {0};
	unsigned odd = 0;

	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(sample_add(&sample, i), 0);
	for (uint32_t i = 0; i < sample.count; i++)
		odd += sample.values[i] % 2;
	assert_true(odd > sample.count / 3 && odd < sample.count * 2 / 3);
	sample_clear(&sample);
}

/* The greatest values are known, and whether they come in a burst: equal ones are chosen from all over the run. */
static void bursts_are_told(void **state)
{
	struct sample even = {0}, burst = {0}, equal = {0};
	uint64_t seed = 5;

	for (uint64_t i = 0; i < 100000; i++) {
		bool chosen = next(&seed) % 1000 == 0;

		assert_int_equal(sample_add(&even, chosen ? 5000 + i % 7 : next(&seed) % 100), 0);
		assert_int_equal(sample_add(&burst, i >= 40000 && i < 40100 ? 5000 + i % 7 : next(&seed) % 100), 0);
		assert_int_equal(sample_add(&equal, 10), 0);
	}
	assert_int_equal(even.longest_count, SAMPLE_LONGEST);
	for (uint32_t i = 0; i < SAMPLE_LONGEST; i++) {
		assert_true(even.longest[i].value >= 5000);
		assert_true(burst.longest[i].number >= 40000 && burst.longest[i].number < 40100);
		assert_true(!i || even.longest[i].value >= even.longest[(i - 1) / 2].value);
	}
	assert_true(sample_bursts(&even, 100) < 3);
	assert_true(sample_bursts(&equal, 100) < 3);
	assert_near(sample_bursts(&burst, 100), (56.0 * 56 + 7 * 64) / 8 / 7, 1e-9); /* all in one of eight parts */
	sample_clear(&even);
	sample_clear(&burst);
	sample_clear(&equal);
	assert_int_equal(sample_add(&even, 1), 0);
	assert_near(sample_bursts(&even, 100), 1, 0); /* too few to tell */
	sample_clear(&even);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_samples_are_tested_exactly),
		cmocka_unit_test(large_samples_are_tested_by_the_normal_approximation),
		cmocka_unit_test(ties_are_exact_in_small_samples),
		cmocka_unit_test(samples_alike_are_seldom_said_to_differ),
		cmocka_unit_test(a_shift_is_found),
		cmocka_unit_test(tails_are_compared),
		cmocka_unit_test(many_tests_are_adjusted),
		cmocka_unit_test(samples_are_even_and_bounded),
		cmocka_unit_test(samples_have_no_rhythm),
		cmocka_unit_test(bursts_are_told),
	};

	return cmocka_run_group_tests_name("diff-rank", tests, NULL, NULL);
}
