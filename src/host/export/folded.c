/*
 * Folded stacks, the input of flame graph tools: "main;parse;read 1234" for every call path, with its self time in
 * nanoseconds or its number of calls.
 *
 * Context: host; see export.h.
 */
#include "../view/names.h"
#include "export.h"

/* Write a name without semicolons, which separate names in this format. */
static void put_name(struct out *out, struct names_text name)
{
	for (uint32_t i = 0; i < name.length; i++)
		out_char(out, name.text[i] == ';' ? ':' : name.text[i]);
}

static void put_path(struct out *out, struct names *names, const uint32_t *path, int64_t depth, uint64_t weight)
{
	for (int64_t i = 0; i <= depth; i++) {
		if (i)
			out_char(out, ';');
		put_name(out, names_function(names, path[i]));
	}
	out_char(out, ' ');
	out_u64(out, weight);
	out_char(out, '\n');
}

static int write_tree(const struct tree *tree, const struct trace *trace, const struct export_options *options,
		      struct out *out)
{
	uint32_t path[EXPORT_DEPTH_MAX];
	struct names *names;
	int64_t depth = -1;
	int err = names_create(&names, trace);

	for (uint32_t at = TREE_ROOT; !err && (at = tree_next(tree, at, false, &depth)) != TREE_NONE;) {
		const struct tree_node *node = &tree->nodes[at];
		uint64_t weight = options->weigh_calls ? node->calls : node->self_ns;

		path[depth] = node->function;
		if (weight)
			put_path(out, names, path, depth, weight);
		err = out->error;
	}
	names_destroy(names);
	return err;
}

static int write_folded(const struct trace *trace, const struct view_filter *filter,
			const struct export_options *options, struct out *out, struct walk *walk,
			struct calltap_diag *diag)
{
	struct tree tree;
	int err = export_tree(&tree, trace, filter, false, walk, diag);

	if (!err)
		err = tree_sort(&tree);
	if (!err)
		err = write_tree(&tree, trace, options, out);
	tree_clear(&tree);
	return err;
}

const struct export_format export_folded = {.name = "folded",
					    .summary = "folded stacks for flame graphs",
					    .takes_min = true,
					    .sums = true,
					    .run = write_folded};
