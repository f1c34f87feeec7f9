/*
 * The merged call graph: of the whole trace, or around one function.
 *
 * Callers: the command `graph`, the exporters.  Context: host.  graph.c derives the trees, graph_text.c prints them.
 */
#ifndef HOST_VIEW_GRAPH_H
#define HOST_VIEW_GRAPH_H

#include "names.h"
#include "out.h"
#include "tree.h"

#define GRAPH_CALLERS_MAX 64 /* levels of callers; higher levels are left out */

struct graph_options {
	size_t size;	      /* sizeof(struct graph_options) */
	const char *function; /* glob; NULL = the whole trace */
	uint32_t depth;	      /* levels to show, 0 = all */
	double min_percent;   /* share of the root's total below which a node is left out */
	bool json;
	bool color;
};

/* Print to out; *walk tells of damage. */
int graph_run(const struct trace *trace, const struct view_filter *filter, const struct graph_options *options,
	      struct out *out, struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Make the tree of functions that match, as roots, with their callees; recursion is below its outermost call. */
int graph_callees(struct tree *callees, const struct tree *tree, const bool *matches)
	__attribute__((warn_unused_result));
/* Make the tree of functions that match, as roots, with their callers as children. */
int graph_callers(struct tree *callers, const struct tree *tree, const bool *matches)
	__attribute__((warn_unused_result));

/*
 * Make the graph of functions: the root's children are the functions, each with the sums that `report` has for it, and
 * their children are the functions that they call, with the sums of these calls.  A call inside of another one of its
 * function is in no total, so that recursion counts once.  The nodes of functions are 1 to *functions.
 */
int graph_functions(struct tree *graph, uint32_t *functions, const struct tree *tree)
	__attribute__((warn_unused_result));

/* The trees to print; callees and callers are NULL for the graph of the whole trace. */
struct graph_trees {
	const struct tree *whole, *callees, *callers;
};
void graph_print(const struct trace *trace, struct names *names, const struct graph_trees *trees,
		 const struct graph_options *options, struct out *out);

#endif
