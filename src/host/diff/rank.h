/*
 * Are these durations longer than those, or is it chance?  The Mann-Whitney test, and what to make of many tests.
 *
 * Caller: diff.c.  Context: host.  Durations are compared by rank alone, because they have long tails: one call that
 * waited for a disk outweighs a thousand others in a mean.
 */
#ifndef HOST_DIFF_RANK_H
#define HOST_DIFF_RANK_H

#include <stdint.h>

#define RANK_EXACT_MAX 24u /* values of both samples together up to which all permutations are counted */

struct rank_result {
	double u;	  /* pairs of one value of each sample in which B's is greater; equal ones count half */
	double share;	  /* u of all pairs: 0.5 = no difference, 1 = each value of B is greater */
	double inflation; /* how much more the samples' mean ranks vary than those of independent values; 1 or more */
	double p;	  /* two-sided */
};

/*
 * Compare two samples, each in the order of time.  Up to exact_max values the test is exact, ties included; beyond it
 * is the normal approximation with the corrections for ties and continuity.  0, or -ENOMEM.
 */
int rank_test(struct rank_result *result, const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count,
	      uint32_t exact_max) __attribute__((warn_unused_result));

/*
 * Do B's calls have more (or fewer) of the events that `both` of all calls have?  Two-sided p of b_events of b_calls,
 * by the normal approximation of the hypergeometric distribution with the correction for continuity.
 */
double rank_tail(uint64_t a_events, uint64_t a_calls, uint64_t b_events, uint64_t b_calls, double inflation);

/*
 * Benjamini and Hochberg: q[i] = the share of false claims among all that are made when this one is the weakest.  0, or
 * -ENOMEM.
 */
int rank_adjust(double *q, const double *p, uint32_t count) __attribute__((warn_unused_result));

#endif
