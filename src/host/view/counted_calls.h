/*
 * Printing counts of calls (tallied.h): a table, a histogram, or JSON.
 *
 * Caller: count.c of the command.  Context: host; counts are untrusted.
 */
#ifndef HOST_VIEW_COUNTED_CALLS_H
#define HOST_VIEW_COUNTED_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>
#include <host/tallied.h>

struct out;
struct trace;

struct counted_options {
	bool json;
	bool sums;		/* numbers are added up */
	bool newest;		/* values that have not come for long have given way to others */
	struct buckets buckets; /* of none: a table */
	/* What times were measured from, and to, as the user has named it; until NULL: none were. */
	const char *from, *until;
};

/* "log2" or "linear:LOW:STEP:N"; -EINVAL with diag. */
int counted_take_hist(struct counted_options *options, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* trace: tells functions' names, and what events hold.  -ENOMEM. */
int counted_print(const struct tallies *tallies, const struct trace *trace, const struct counted_options *options,
		  struct out *out) __attribute__((warn_unused_result));
/* As above, of times that were measured; counted_spans.c. */
void counted_print_spans(const struct tallies *tallies, const struct trace *trace,
			 const struct counted_options *options, struct out *out);

#endif
