/*
 * Unit tests of runs.h: Student's distribution against published values, and runs that are made up, so that it is known
 * whether the sides differ.
 *
 *     test_diff_runs          the published values, and changes that are always found
 *     test_diff_runs chance   how often the test claims a difference, over many made-up runs
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/diff/rank.h"
#include "host/diff/runs.h"
#include "host/diff/sample.h"

#define ROUNDS	   2000u
#define FEW_ROUNDS 20u
#define CALLS	   200u
#define RUNS_MAX   5u
#define MEDIAN	   10000 /* ns */

/* The two-sided 5 % and 0.1 % points of every table of the distribution. */
static void student_has_the_published_points(void **state)
{
	static const struct {
		unsigned freedom;
		double five, one_in_thousand;
	} rows[] = {{1, 12.706, 636.619}, {2, 4.3027, 31.599}, {3, 3.1824, 12.924}, {4, 2.7764, 8.610},
		    {5, 2.5706, 6.869},	  {8, 2.3060, 5.041},  {9, 2.2622, 4.781},  {30, 2.0423, 3.646}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(fabs(runs_student(rows[i].five, rows[i].freedom) - 0.05) < 1e-5);
		assert_true(fabs(runs_student(-rows[i].one_in_thousand, rows[i].freedom) - 0.001) < 1e-6);
		assert_true(runs_student(0, rows[i].freedom) == 1);
	}
}

static uint64_t state_of_chance;

static double uniform(void)
{
	uint64_t z = state_of_chance += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

/* How the made-up runs are. */
struct truth {
	unsigned runs;	/* of a side */
	double between; /* how far a run's pace is off, as a part of it */
	double change;	/* of side B */
	double rare;	/* part of B's calls, beside A's one in a hundred, that take a hundred times as long */
	double swing;	/* how far the part of such calls is off in a run, as a part of it */
};

struct made {
	struct runs_value means[2 * RUNS_MAX], tails[2 * RUNS_MAX];
	struct sample samples[SIDES];
	unsigned count;
};

static void make_run(struct made *made, const struct truth *truth, unsigned side)
{
	const double pace = truth->between * normal() + log1p(side == SIDE_B ? truth->change : 0);
	const double rare = (0.01 + (side == SIDE_B ? truth->rare : 0)) * exp(truth->swing * normal());
	struct run run = {0};

	for (unsigned call = 0; call < CALLS; call++) {
		double longer = uniform() < rare ? log(100) : 0;
		uint64_t ns = (uint64_t)(MEDIAN * exp(pace + 0.3 * normal() + longer));

		runs_take(&run, ns);
		assert_int_equal(histogram_add(&run.histogram, ns), 0);
		assert_int_equal(sample_add(&made->samples[side], ns), 0);
	}
	made->means[made->count] = runs_log_mean(&run, side);
	made->tails[made->count++] = runs_tail(&run, side, 20 * MEDIAN);
	histogram_clear(&run.histogram);
}

/* Parts of the rounds in which the test said that the sides differ, at 5 %. */
struct said {
	double pooled; /* by the ranks of all calls, as with one trace a side */
	double means, tails;
};

static struct said rounds(const struct truth *truth, unsigned count)
{
	struct said said = {0};

	state_of_chance = 1;
	for (unsigned round = 0; round < count; round++) {
		struct made made = {0};
		struct rank_result rank;
		double change;

		for (unsigned i = 0; i < 2 * truth->runs; i++)
			make_run(&made, truth, i % 2 ? SIDE_B : SIDE_A);
		assert_int_equal(rank_test(&rank, made.samples[SIDE_A].values, made.samples[SIDE_A].count,
					   made.samples[SIDE_B].values, made.samples[SIDE_B].count, RANK_EXACT_MAX),
				 0);
		said.pooled += (rank.p <= 0.05) / (double)count;
		said.means += (runs_test(made.means, made.count, &change) <= 0.05) / (double)count;
		said.tails += (runs_test(made.tails, made.count, &change) <= 0.05) / (double)count;
		sample_clear(&made.samples[SIDE_A]);
		sample_clear(&made.samples[SIDE_B]);
	}
	print_message("%u runs a side, %.0f %% between them, change %.0f %%: %.3f by pooled ranks, %.3f by runs, tails "
		      "%.3f\n",
		      truth->runs, 100 * truth->between, 100 * truth->change, said.pooled, said.means, said.tails);
	return said;
}

/* 2000 rounds at 5 % have a standard error of 0.5 %. */
static void equal_sides_differ_in_five_percent(void **state)
{
	for (unsigned runs = 2; runs <= RUNS_MAX; runs++) {
		struct said said = rounds(&(struct truth){.runs = runs, .between = 0.1, .swing = 0.5}, ROUNDS);

		assert_true(said.means > 0.02 && said.means < 0.065);
		assert_true(said.tails < 0.065);
		assert_true(runs > 3 || said.pooled > 4 * said.means); /* what the runs are for */
	}
}

static void runs_without_a_pace_of_their_own_do_not_claim_more(void **state)
{
	struct said said = rounds(&(struct truth){.runs = 3}, ROUNDS);

	assert_true(said.means < 0.06 && said.tails < 0.06);
}

static void a_planted_change_is_found(void **state)
{
	assert_true(rounds(&(struct truth){.runs = 3, .between = 0.03, .change = 0.3}, ROUNDS).means > 0.95);
	assert_true(rounds(&(struct truth){.runs = 5, .between = 0.1, .change = 0.3}, ROUNDS).means > 0.9);
	/* Two runs a side have two degrees of freedom: a change has to be very large beside what runs differ by. */
	assert_true(rounds(&(struct truth){.runs = 2, .between = 0.03, .change = 0.5}, ROUNDS).means > 0.95);
	assert_true(rounds(&(struct truth){.runs = 5, .between = 0.03, .rare = 0.1, .swing = 0.2}, ROUNDS).tails >
		    0.95);
}

/* A change of which chance leaves no doubt. */
static void a_large_change_is_found_every_time(void **state)
{
	const struct truth plain = {.runs = 5, .between = 0.01, .change = 3};
	const struct truth rare = {.runs = 5, .between = 0.01, .rare = 0.5};

	assert_true(rounds(&plain, FEW_ROUNDS).means > 0.999);
	assert_true(rounds(&rare, FEW_ROUNDS).tails > 0.999);
}

static void too_few_runs_claim_nothing(void **state)
{
	const struct runs_value values[] = {{SIDE_A, 1, 0}, {SIDE_B, 2, 0}, {SIDE_B, 2, 0}};
	double change;

	assert_true(runs_test(values, 2, &change) == 1 && change == 0);
	assert_true(runs_test(values + 1, 2, &change) == 1 && change == 0);
	/* Three that do not vary at all, as numbers of calls may not. */
	assert_true(runs_test(values, 3, &change) == 0 && change == 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest exact[] = {
		cmocka_unit_test(student_has_the_published_points),
		cmocka_unit_test(a_large_change_is_found_every_time),
		cmocka_unit_test(too_few_runs_claim_nothing),
	};
	const struct CMUnitTest by_chance[] = {
		cmocka_unit_test(equal_sides_differ_in_five_percent),
		cmocka_unit_test(runs_without_a_pace_of_their_own_do_not_claim_more),
		cmocka_unit_test(a_planted_change_is_found),
	};

	if (argc > 1 && !strcmp(argv[1], "chance"))
		return cmocka_run_group_tests(by_chance, NULL, NULL);
	return cmocka_run_group_tests(exact, NULL, NULL);
}
