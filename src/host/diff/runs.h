/*
 * Several runs of the same program: how much do they differ among themselves?
 *
 * Caller: diff.c.  Context: host.  Two runs are never alike on a machine that others use as well.  With one trace a
 * side nothing tells how much they differ; with several, a difference of the sides is told only if it is large beside
 * the differences between the runs of one side.
 */
#ifndef HOST_DIFF_RUNS_H
#define HOST_DIFF_RUNS_H

#include "../view/histogram.h"
#include "pair.h"

/* A function's calls in one trace. */
struct run {
	uint64_t calls;		    /* unfinished ones, too */
	uint64_t measured;	    /* durations that the numbers below are of */
	double sum, squares;	    /* of the durations' logarithms */
	struct histogram histogram; /* of the durations */
};

/* A number that stands for one run: the test compares the numbers of both sides. */
struct runs_value {
	unsigned side;
	double value;
	double noise; /* the variance that the figure would have if the run's calls were independent; 0 = not known */
};

void runs_take(struct run *run, uint64_t ns);
/* The mean of the logarithms of the durations; a run without any has none. */
struct runs_value runs_log_mean(const struct run *run, unsigned side);
/* The part of the calls that took at least so long, as an angle, whose variance does not depend on the part. */
struct runs_value runs_tail(const struct run *run, unsigned side, uint64_t floor);
/*
 * Two-sided p of Student's t test on the runs' figures, with one variance for both sides; it is 1 when there are fewer
 * than three runs, or none of one side. *change: the mean of side B less that of side A.
 */
double runs_test(const struct runs_value *values, unsigned count, double *change);
/* The probability that |t| is as great by chance. */
double runs_student(double t, unsigned freedom);

#endif
