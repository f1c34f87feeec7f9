/*
 * Call graphs out of the merged tree; see graph.h.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "graph.h"

static void add_counts(struct tree_node *to, const struct tree_node *from)
{
	to->calls += from->calls;
	to->total_ns += from->total_ns;
	to->self_ns += from->self_ns;
	to->estimated |= from->estimated;
	to->unfinished += from->unfinished;
	to->tails += from->tails;
	to->before += from->before;
}

int graph_callees(struct tree *callees, const struct tree *tree, const bool *matches)
{
	uint32_t *copy = malloc((size_t)tree->count * sizeof(*copy)); /* per node of tree: its node of callees */
	int err = copy ? 0 : -ENOMEM;

	if (copy)
		copy[TREE_ROOT] = TREE_NONE;
	/* A parent comes before its children in the array, so one pass suffices. */
	for (uint32_t i = 1; i < tree->count && !err; i++) {
		const struct tree_node *node = &tree->nodes[i];
		uint32_t above = copy[node->parent];

		if (above == TREE_NONE && matches[i])
			above = TREE_ROOT;
		copy[i] = above == TREE_NONE ? TREE_NONE : tree_child(callees, above, node->function, &err);
		if (copy[i] != TREE_NONE)
			add_counts(&callees->nodes[copy[i]], node);
	}
	free(copy);
	tree_sum(callees);
	return err;
}

/* Add node's calls to the path of its callers. */
static int add_path(struct tree *callers, const struct tree *tree, uint32_t start, bool outermost)
{
	struct tree_node weight = tree->nodes[start];
	uint32_t at = TREE_ROOT;
	unsigned level = 0;
	int err = 0;

	if (!outermost)
		weight.total_ns = 0;
	for (uint32_t i = start; i != TREE_ROOT && level <= GRAPH_CALLERS_MAX; i = tree->nodes[i].parent, level++) {
		at = tree_child(callers, at, tree->nodes[i].function, &err);
		if (at == TREE_NONE)
			break;
		add_counts(&callers->nodes[at], &weight);
		if (level == 1)
			weight.tails = 0; /* the trees do not count by path how callers were called in turn */
	}
	return err;
}

int graph_callers(struct tree *callers, const struct tree *tree, const bool *matches)
{
	bool *inside = calloc(tree->count, sizeof(*inside)); /* per node: a matching node is above */
	int err = inside ? 0 : -ENOMEM;

	for (uint32_t i = 1; i < tree->count && !err; i++) {
		uint32_t parent = tree->nodes[i].parent;

		inside[i] = inside[parent] || matches[parent];
		if (matches[i])
			err = add_path(callers, tree, i, !inside[i]);
	}
	free(inside);
	tree_sum(callers);
	return err;
}

/* What graph_functions() knows while it goes down a path. */
struct path {
	uint32_t *function; /* per node of the tree: its function's node in the graph */
	uint32_t *nodes;    /* nodes of the graph, from the outermost call down */
	uint32_t *open;	    /* per function's node: how often it is in `nodes` */
};

static int add_functions(struct tree *graph, const struct tree *tree, struct path *path)
{
	int64_t depth = -1, known = 0;
	int err = 0;

	for (uint32_t at = TREE_ROOT; !err && (at = tree_next(tree, at, false, &depth)) != TREE_NONE;) {
		struct tree_node weight = tree->nodes[at];
		uint32_t function = path->function[at], edge = TREE_NONE;

		while (known > depth)
			path->open[path->nodes[--known]]--;
		if (path->open[function])
			weight.total_ns = 0;
		path->nodes[known++] = function;
		path->open[function]++;
		add_counts(&graph->nodes[function], &weight);
		if (depth)
			edge = tree_child(graph, path->nodes[depth - 1], weight.function, &err);
		if (edge != TREE_NONE)
			add_counts(&graph->nodes[edge], &weight);
	}
	return err;
}

int graph_functions(struct tree *graph, uint32_t *functions, const struct tree *tree)
{
	struct path path = {.function = calloc(tree->count, sizeof(*path.function)),
			    .nodes = calloc(tree->count, sizeof(*path.nodes)),
			    .open = calloc((size_t)tree->count + 1, sizeof(*path.open))};
	int err = path.function && path.nodes && path.open ? 0 : -ENOMEM;

	for (uint32_t i = 1; i < tree->count && !err; i++) {
		path.function[i] = tree_child(graph, TREE_ROOT, tree->nodes[i].function, &err);
		err = err ? err : path.function[i] == TREE_NONE ? -ENOSPC : 0;
	}
	*functions = graph->count - 1;
	if (!err)
		err = add_functions(graph, tree, &path);
	add_counts(&graph->nodes[TREE_ROOT], &tree->nodes[TREE_ROOT]);
	free(path.function);
	free(path.nodes);
	free(path.open);
	return err;
}

/* Per node: true if its function matches the glob; *any: at least one does. */
static bool *mark_matches(const struct trace *trace, const struct tree *tree, const char *glob, bool *any)
{
	bool *marks = calloc(tree->count, sizeof(*marks));

	*any = false;
	for (uint32_t i = 1; marks && i < tree->count; i++) {
		marks[i] = trace_function_matches(trace, tree->nodes[i].function, glob);
		*any |= marks[i];
	}
	return marks;
}

static int print_around(const struct trace *trace, struct names *names, const struct tree *whole,
			const struct graph_options *options, struct out *out, struct calltap_diag *diag)
{
	struct tree callees, callers;
	bool any;
	bool *matches = mark_matches(trace, whole, options->function, &any);
	int err = tree_init(&callees, TREE_NODES_MAX);

	if (!err && tree_init(&callers, TREE_NODES_MAX)) {
		tree_clear(&callees);
		err = -ENOMEM;
	}
	if (err || !matches) {
		free(matches);
		return -ENOMEM;
	}
	if (!any) {
		err = calltap_diag_set(diag, -ENOENT,
				       "no call of '%s' is in the trace: 'calltap report' lists what was called, "
				       "and '*part*' matches a part of a name",
				       options->function);
	} else {
		err = graph_callees(&callees, whole, matches);
		if (!err)
			err = graph_callers(&callers, whole, matches);
		if (!err)
			err = tree_sort(&callees);
		if (!err)
			err = tree_sort(&callers);
	}
	if (!err)
		graph_print(trace, names, &(struct graph_trees){whole, &callees, &callers}, options, out);
	free(matches);
	tree_clear(&callees);
	tree_clear(&callers);
	return err;
}

int graph_run(const struct trace *trace, const struct view_filter *filter, const struct graph_options *options,
	      struct out *out, struct walk *walk, struct calltap_diag *diag)
{
	struct names *names = NULL;
	struct tree tree;
	int err = tree_init(&tree, TREE_NODES_MAX);

	if (err)
		return calltap_diag_set(diag, err, "out of memory for the call tree");
	err = tree_build(&(struct tree_builder){.tree = &tree}, trace, filter, walk, diag);
	if (!err && tree.count == 1)
		err = calltap_diag_set(diag, -ENODATA,
				       "the trace has no calls with a duration here: record with '-p function_graph', "
				       "or choose more with --time, --pid and --tid");
	if (!err)
		err = names_create(&names, trace);
	if (!err && options->function)
		err = print_around(trace, names, &tree, options, out, diag);
	else if (!err)
		err = tree_sort(&tree);
	if (!err && !options->function)
		graph_print(trace, names, &(struct graph_trees){.whole = &tree}, options, out);
	if (err == -ENOMEM)
		calltap_diag_set(diag, err, "out of memory for the call tree: choose less with --time or --tid");
	names_destroy(names);
	tree_clear(&tree);
	return err;
}
