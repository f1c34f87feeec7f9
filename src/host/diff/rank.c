/*
 * The Mann-Whitney test; see rank.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "rank.h"

#define BLOCKS_MAX 16u /* parts of a sample, by time, whose mean ranks are compared; and half as many */
#define BLOCKS_MIN 64u /* values of a sample for that */

struct value {
	uint64_t value;
	uint32_t index; /* in a, then in b */
	double rank;	/* the mean of the ranks of equal values */
};

static int compare_values(const void *left, const void *right)
{
	const struct value *a = left, *b = right;

	if (a->value != b->value)
		return a->value < b->value ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

/* Give the sorted values their ranks; returns the sum of t^3 - t over groups of t equal values. */
static double give_ranks(struct value *values, uint32_t count)
{
	double ties = 0;

	for (uint32_t from = 0, to; from < count; from = to) {
		double t;

		for (to = from; to < count && values[to].value == values[from].value; to++)
			values[to].rank = 0;
		for (uint32_t i = from; i < to; i++)
			values[i].rank = ((double)from + 1 + (double)to) / 2;
		t = (double)(to - from);
		ties += t * t * t - t;
	}
	return ties;
}

/*
 * The share of all ways to choose `chosen` of the values whose sum of ranks is as far from the expected one as `sum`
 * is.  ways[k][s]: of choosing k values with twice their ranks' sum s; each value in turn is taken or not.
 */
static int exact_p(double *p, const struct value *values, uint32_t count, uint32_t chosen, double sum)
{
	const uint32_t sums = count * (count + 1) + 1;
	const double expected = (double)chosen * (count + 1); /* doubled, as all sums here */
	double *ways = calloc((size_t)(chosen + 1) * sums, sizeof(*ways));
	double all = 0, far = 0;

	if (!ways)
		return -ENOMEM;
	ways[0] = 1;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = (uint32_t)lround(2 * values[i].rank);

		for (uint32_t k = chosen < i + 1 ? chosen : i + 1; k > 0; k--) {
			double *to = ways + (size_t)k * sums;
			const double *from = to - sums;

			for (uint32_t s = sums - 1; s >= rank; s--)
				to[s] += from[s - rank];
		}
	}
	for (uint32_t s = 0; s < sums; s++) {
		double number = ways[(size_t)chosen * sums + s];

		all += number;
		if (fabs(s - expected) >= fabs(2 * sum - expected) - 1e-6)
			far += number;
	}
	free(ways);
	*p = far / all;
	return 0;
}

/* The variance of the mean ranks of a sample's parts, by what independent values would have. */
static double blocks_vary(const double *ranks, uint32_t count, uint32_t blocks)
{
	const uint32_t size = count / blocks;
	double mean = 0, within = 0, between = 0;

	for (uint32_t i = 0; i < size * blocks; i++)
		mean += ranks[i] / (size * blocks);
	for (uint32_t block = 0; block < blocks; block++) {
		double of_block = 0;

		for (uint32_t i = block * size; i < (block + 1) * size; i++) {
			within += (ranks[i] - mean) * (ranks[i] - mean) / (size * blocks - 1);
			of_block += ranks[i] / size;
		}
		between += (of_block - mean) * (of_block - mean) / (blocks - 1);
	}
	return within > 0 ? between * size / within : 1;
}

/*
 * Calls that follow each other share a cache, a clock rate and a busy machine: a hundred of them then tell no more than
 * a few.  Two lengths of parts are looked at, and the worse one counts.
 */
static double inflation_of(const double *ranks, uint32_t count)
{
	double most = 1;

	for (uint32_t blocks = BLOCKS_MAX; count >= BLOCKS_MIN && blocks >= BLOCKS_MAX / 2; blocks /= 2)
		most = fmax(most, blocks_vary(ranks, count, blocks));
	return most;
}

static double normal_p(const struct rank_result *result, double ties, double n, double m)
{
	double all = n + m, variance = n * m / 12 * (all + 1 - ties / (all * (all - 1))) * result->inflation;
	double off = fabs(result->u - n * m / 2) - 0.5;

	if (!(variance > 0))
		return 1;
	return erfc(fmax(off, 0) / sqrt(variance) / sqrt(2));
}

int rank_test(struct rank_result *result, const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count,
	      uint32_t exact_max)
{
	const uint32_t count = a_count + b_count;
	double ties, sum = 0, n = a_count, m = b_count;
	struct value *values;
	double *ranks;
	int err = 0;

	*result = (struct rank_result){.share = 0.5, .inflation = 1, .p = 1};
	if (!a_count || !b_count)
		return 0;
	values = malloc(count * sizeof(*values));
	ranks = malloc(count * sizeof(*ranks));
	if (!values || !ranks) {
		free(values);
		free(ranks);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		values[i] = (struct value){.value = i < a_count ? a[i] : b[i - a_count], .index = i};
	qsort(values, count, sizeof(*values), compare_values);
	ties = give_ranks(values, count);
	for (uint32_t i = 0; i < count; i++) {
		ranks[values[i].index] = values[i].rank;
		sum += values[i].index >= a_count ? values[i].rank : 0;
	}
	result->u = sum - m * (m + 1) / 2;
	result->share = result->u / (n * m);
	if (count <= exact_max) {
		err = exact_p(&result->p, values, count, b_count, sum);
	} else {
		result->inflation = fmax(inflation_of(ranks, a_count), inflation_of(ranks + a_count, b_count));
		result->p = normal_p(result, ties, n, m);
	}
	free(values);
	free(ranks);
	return err;
}

double rank_tail(uint64_t a_events, uint64_t a_calls, uint64_t b_events, uint64_t b_calls, double inflation)
{
	double all = (double)a_calls + (double)b_calls, events = (double)a_events + (double)b_events;
	double part = (double)b_calls / all, off = fabs((double)b_events - events * part) - 0.5;
	double variance = events * part * (1 - part) * (all - events) / (all - 1) * inflation;

	if (!(variance > 0))
		return 1;
	return erfc(fmax(off, 0) / sqrt(variance) / sqrt(2));
}

static int compare_places(const void *left, const void *right, void *ctx)
{
	const double *p = ctx;
	double a = p[*(const uint32_t *)left], b = p[*(const uint32_t *)right];

	return a < b ? -1 : a > b;
}

int rank_adjust(double *q, const double *p, uint32_t count)
{
	uint32_t *order = malloc(((size_t)count + 1) * sizeof(*order));
	double least = 1;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), compare_places, (void *)p);
	for (uint32_t i = count; i-- > 0;) {
		least = fmin(least, p[order[i]] * count / (i + 1));
		q[order[i]] = least;
	}
	free(order);
	return 0;
}
