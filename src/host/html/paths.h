/*
 * The first pass over the trace: its call paths, for the flame graph, and how long calls are, for the levels of detail.
 *
 * Caller: write.c.  Context: host.
 */
#ifndef HOST_HTML_PATHS_H
#define HOST_HTML_PATHS_H

#include "../view/tree.h"
#include "columns.h"
#include "levels.h"
#include "used.h"

struct paths {
	struct tree threads; /* the root's children are threads, with the calls in them */
	struct tree whole;   /* the tree of `calltap graph` */
	struct histogram durations;
	uint64_t untimed;      /* calls without a duration, of the tracer "function" */
	uint64_t whole_left;   /* nodes of the whole tree that the page leaves out */
	uint64_t threads_left; /* and of the threads' trees */
	uint64_t whole_min_ns; /* left-out nodes have at most this total */
	uint64_t threads_min_ns;
	uint64_t pairs_left;
};

int paths_collect(struct paths *paths, const struct trace *trace, const struct view_filter *filter, struct walk *walk,
		  struct calltap_diag *diag) __attribute__((warn_unused_result));
/* The limits that the durations make. */
void paths_levels(const struct paths *paths, const struct trace *trace, struct levels *levels);
/* The least total, + 1, such that at most LEVELS_PATHS nodes have as much, 0 = all nodes may stay; sorts the totals. */
uint64_t paths_least(uint64_t *totals, uint32_t count);
/* Write the trees and the pairs of caller and callee. */
int paths_put(struct paths *paths, struct columns *columns, struct used *used) __attribute__((warn_unused_result));
void paths_clear(struct paths *paths);

#endif
