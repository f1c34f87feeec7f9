/*
 * The merged tree and the graph of functions, for the formats that hold sums; see export.h.  Context: host.
 */
#include <errno.h>
#include <stdio.h>

#include "host/counted.h"
#include "../view/graph.h"
#include "export.h"

int export_nothing(struct calltap_diag *diag)
{
	return calltap_diag_set(diag, -ENODATA,
				"the trace has no calls with a duration here: record with '-p function_graph', or "
				"choose more with --time, --pid and --tid");
}

int export_tree(struct tree *tree, const struct trace *trace, const struct view_filter *filter, bool by_thread,
		struct walk *walk, struct calltap_diag *diag)
{
	struct tree_builder builder = {.tree = tree, .depth_max = EXPORT_DEPTH_MAX, .by_thread = by_thread};
	int err = tree_init(tree, TREE_NODES_MAX);

	if (err)
		return calltap_diag_set(diag, err, "out of memory for the call tree");
	err = tree_build(&builder, trace, filter, walk, diag);
	if (!err && tree->count == 1)
		return export_nothing(diag);
	if (!err && tree->absorbed)
		fprintf(stderr, "calltap: %llu %s below %u levels or beyond %u paths %s\n",
			(unsigned long long)tree->absorbed, counted(tree->absorbed, "call", "calls"), EXPORT_DEPTH_MAX,
			TREE_NODES_MAX,
			counted(tree->absorbed, "is counted into its caller", "are counted into their callers"));
	return err;
}

int export_functions(struct tree *graph, uint32_t *functions, const struct trace *trace,
		     const struct view_filter *filter, struct walk *walk, struct calltap_diag *diag)
{
	struct tree tree = {0};
	int err = tree_init(graph, 2 * TREE_NODES_MAX); /* a function and an edge for each node of the tree at most */

	if (!err)
		err = export_tree(&tree, trace, filter, false, walk, diag);
	if (!err)
		err = graph_functions(graph, functions, &tree);
	if (!err)
		err = tree_sort(graph);
	tree_clear(&tree);
	if (err == -ENOMEM)
		calltap_diag_set(diag, err, "out of memory for the call graph: choose less with --time or --tid");
	return err;
}
