/*
 * How good durations of calls are that have no exact ones: by the calls of the same function that have.
 *
 * Caller: report.c.  Context: host.  doc/design/estimates.md has the argument.  A pass over the trace notes the exact
 * durations of each function's calls, before the pass that counts.
 */
#ifndef HOST_VIEW_ESTIMATE_H
#define HOST_VIEW_ESTIMATE_H

#include "histogram.h"
#include "walk.h"

struct estimates;

struct estimate {
	double ns;	   /* between the estimates of its ends */
	uint64_t drawn_ns; /* for distributions: with the spread that exact durations have */
	uint64_t said_ns;  /* for distributions: by the exact durations alone, whatever the call got */
	double other_ns;   /* the mean of exact durations that the call can have; where there are none, `ns` */
	double spread_ns;  /* standard deviation of the true duration around `ns`, if that is the right mean */
	double loose_ns;   /* what the call got of time that may be its neighbours', and the reverse; as doubt_ns */
	double per_exact;  /* so many estimated calls of the function one exact duration stands for */
	double doubt_ns;   /* what the mean itself may be off, of all calls alike: in 95 of 100 cases no more */
};

#define ESTIMATES_PASSES 2 /* over a trace with estimates: this one, and the one that uses them */

/* *out: NULL when all records of the trace have times. */
int estimates_create(struct estimates **out, const struct trace *trace, const struct view_filter *filter,
		     struct calltap_diag *diag) __attribute__((warn_unused_result));
void estimates_destroy(struct estimates *estimates);
/* A number as a whole one, cut to what fits. */
static inline uint64_t estimate_whole(double value)
{
	return value < 0x1p63 ? (uint64_t)value : INT64_MAX;
}
/* The running time of a finished call whose entry is known and that call_is_estimated(). */
void estimate_call(struct estimates *estimates, const struct walk *walk, const struct call_closed *closed,
		   struct estimate *estimate);

#endif
