/*
 * The call trees of the page's trace and of the other one as one tree, for the differential flame graph.
 *
 * Caller: write.c.  Context: host.  The tree is that of `calltap diff --tree`.
 */
#ifndef HOST_HTML_DIFFERENCE_H
#define HOST_HTML_DIFFERENCE_H

#include "../diff/diff.h"
#include "../view/json.h"
#include "columns.h"

struct difference {
	uint32_t *names; /* numbers of the pair's names, in the order of their first use */
	uint32_t name_count;
	uint64_t left;	 /* nodes that the page leaves out */
	uint64_t min_ns; /* left-out nodes have at most this total, before and after */
};

/* Write the tree, if the comparison has one.  Release with difference_clear() even after an error. */
int difference_put(struct difference *difference, const struct diff *diff, struct columns *columns)
	__attribute__((warn_unused_result));
/* The names, and what is left out. */
void difference_write(const struct difference *difference, const struct diff *diff, struct json *json);
void difference_clear(struct difference *difference);

#endif
