/*
 * Why is a call of a function slow?  Its slow calls beside its others: what they do more of.
 *
 * Caller: the command `slow`.  Context: host.  slow.c finds the calls, slow_text.c prints.
 *
 * The trace is read three times: for how long the function's calls took (not with a limit of the caller's), for which
 * of them are slow, and for what happened in them.  Between the passes two bits are kept per call of the function.
 * Calls within a call of the function are part of that one.
 */
#ifndef HOST_DIFF_SLOW_H
#define HOST_DIFF_SLOW_H

#include "../view/histogram.h"
#include "../view/names.h"
#include "../view/out.h"
#include "pair.h"
#include "twin.h"
#include "met.h"

#define SLOW_TOLD_MAX 400 /* bytes of an example's values */

struct slow_options {
	size_t size;	      /* sizeof(struct slow_options) */
	const char *function; /* glob */
	uint64_t over_ns;     /* calls that took longer are slow; UINT64_MAX = the slowest hundredth */
	uint64_t limit;	      /* lines of the tree, 0 = all */
	double min_percent;   /* what makes less of the difference is folded */
	bool json, color;
	unsigned width; /* of the terminal, 0 = no limit */
};

/* The others are side A, the slow ones side B. */
#define SLOW_OTHERS SIDE_A
#define SLOW_SLOW   SIDE_B

struct slow_class {
	uint64_t calls, total_ns, min_ns, max_ns;
	struct histogram histogram;
};

/* A call to look at. */
struct slow_example {
	uint64_t from_ns, ns; /* since the trace's start */
	uint32_t thread;
	char told[SLOW_TOLD_MAX]; /* its arguments as replay shows them, "" = none */
};

struct slow {
	const struct trace *trace;
	struct pair *pair;
	struct names *names;
	uint32_t functions;  /* that match, and were called */
	uint32_t function;   /* one of them */
	uint64_t floor_ns;   /* slow calls took at least as long */
	uint64_t unfinished; /* calls of the function, which are of neither kind */
	uint64_t unsure;     /* calls of which nobody knows whether they are slow, as their durations are estimates */
	uint64_t estimated;  /* of the calls of both kinds, those whose durations are estimates */
	uint64_t lost, wait_ns, absorbed;
	struct slow_class classes[SIDES];
	struct slow_example slowest, median;
	struct twin twin;
	struct met met; /* values of the calls */
	uint64_t damages;
	struct calltap_diag damage;
};

/* Find and compare; release with slow_clear() even after an error. */
int slow_run(struct slow *slow, const struct trace *trace, const struct view_filter *filter,
	     const struct slow_options *options, struct calltap_diag *diag) __attribute__((warn_unused_result));
void slow_clear(struct slow *slow);
/* The middle duration of a class's calls. */
uint64_t slow_median_ns(const struct slow_class *of);
int slow_print(struct slow *slow, const struct slow_options *options, struct out *out)
	__attribute__((warn_unused_result));

#endif
