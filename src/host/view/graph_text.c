/*
 * Printing call graphs; see graph.h.  Context: host.
 */
#include "host/counted.h"
#include "graph.h"
#include "json.h"
#include "term.h"
#include <host/text.h>

#define INDENT_MAX 256 /* columns */

struct printing {
	const struct trace *trace;
	struct names *names;
	const struct graph_options *options;
	struct out *out;
	const struct tree *whole;
	uint64_t hidden; /* nodes left out */
};

static double percent_of(const struct tree *tree, uint32_t node)
{
	uint64_t whole = tree->nodes[TREE_ROOT].total_ns;

	return whole ? 100.0 * (double)tree->nodes[node].total_ns / (double)whole : 0;
}

/* The next node to show, TREE_NONE at the end; counts nodes that are left out, without those below them. */
static uint32_t next_shown(struct printing *printing, const struct tree *tree, uint32_t node, int64_t *depth)
{
	const struct graph_options *options = printing->options;
	bool skip = false;

	for (;;) {
		node = tree_next(tree, node, skip, depth);
		if (node == TREE_NONE)
			return node;
		skip = (options->depth && *depth >= options->depth) || percent_of(tree, node) < options->min_percent;
		if (!skip)
			return node;
		printing->hidden++;
	}
}

/* Is the time of a node's own an estimate?  So it is if a callee's is. */
static bool self_is_estimated(const struct printing *printing, const struct tree_node *node)
{
	return node->estimated || (printing->whole->estimated && node->self_ns != node->total_ns);
}

static void print_time(struct out *out, uint64_t ns, bool estimated, unsigned width)
{
	char text[TIMETEXT_MAX + 1] = "~";

	timetext(ns, text + estimated);
	out_column(out, text, width, true);
}

static void print_tree(struct printing *printing, const struct tree *tree)
{
	struct out *out = printing->out;
	int64_t depth = -1;

	if (printing->options->color)
		out_text(out, TERM_BOLD);
	out_text(out, "      Total       %        Self       Calls  Function");
	if (printing->options->color)
		out_text(out, TERM_RESET);
	out_char(out, '\n');
	for (uint32_t at = TREE_ROOT; (at = next_shown(printing, tree, at, &depth)) != TREE_NONE;) {
		const struct tree_node *node = &tree->nodes[at];

		print_time(out, node->total_ns, node->estimated, 11);
		out_format(out, " %6.2f%%", percent_of(tree, at));
		print_time(out, node->self_ns, self_is_estimated(printing, node), 12);
		out_u64_width(out, node->calls, 12);
		out_spaces(out, 2 + (depth * 2 < INDENT_MAX ? (size_t)depth * 2 : INDENT_MAX));
		out_text(out, names_function(printing->names, node->function).text);
		if (node->tails)
			out_format(out, "  (%llu by tail call)", (unsigned long long)node->tails);
		if (node->unfinished)
			out_format(out, "  (%llu unfinished)", (unsigned long long)node->unfinished);
		if (node->before)
			out_format(out, "  (%llu entered before the trace)", (unsigned long long)node->before);
		out_char(out, '\n');
	}
}

static void print_notes(const struct printing *printing)
{
	const struct tree *whole = printing->whole;
	char text[TIMETEXT_MAX];

	if (printing->hidden)
		out_format(printing->out, "nodes not shown: %llu (--min-percent 0 and no --depth show all)\n",
			   (unsigned long long)printing->hidden);
	if (whole->estimated)
		out_text(printing->out, "times with ~ are estimates (calltap-report(1), ESTIMATES)\n");
	if (whole->absorbed)
		out_format(printing->out,
			   "the tree is full (%u nodes): %llu %s; "
			   "choose less with --time or --tid\n",
			   whole->limit, (unsigned long long)whole->absorbed,
			   counted(whole->absorbed, "call is counted into its caller",
				   "calls are counted into their callers"));
	if (whole->strays)
		out_format(printing->out, "calls whose entry is not in the trace, left out: %llu\n",
			   (unsigned long long)whole->strays);
	if (whole->lost)
		out_format(printing->out, "records lost: %llu (the counts are too low)\n",
			   (unsigned long long)whole->lost);
	if (whole->gap_ns)
		out_format(printing->out, VIEW_GAPS, timetext(whole->gap_ns, text));
}

/* A key for what is so; nothing for what is not. */
static void put_true(struct json *json, const char *key, bool is)
{
	if (!is)
		return;
	json_key(json, key);
	json_bool(json, true);
}

static void tree_json(struct printing *printing, struct json *json, const char *key, const struct tree *tree)
{
	int64_t depth = -1;

	json_key(json, key);
	json_array(json);
	for (uint32_t at = TREE_ROOT; (at = next_shown(printing, tree, at, &depth)) != TREE_NONE;) {
		const struct tree_node *node = &tree->nodes[at];
		const struct trace_function *function = trace_function(printing->trace, node->function);

		tree_json_begin(json, tree, at, depth);
		json_key_string(json, "function",
				function ? function->name : names_function(printing->names, node->function).text);
		json_key_u64(json, "calls", node->calls);
		json_key_u64(json, "unfinished", node->unfinished);
		if (node->tails)
			json_key_u64(json, "tail_calls", node->tails);
		if (node->before)
			json_key_u64(json, "entered_before", node->before);
		json_key_u64(json, "total_ns", node->total_ns);
		json_key_u64(json, "self_ns", node->self_ns);
		put_true(json, "total_estimated", node->estimated);
		put_true(json, "self_estimated", self_is_estimated(printing, node));
		json_object_end(json);
		out_char(printing->out, '\n');
	}
	json_array_end(json);
}

static void print_json(struct printing *printing, const struct graph_trees *trees)
{
	struct json json;

	json_begin(&json, printing->out);
	json_object(&json);
	if (trees->callees) {
		json_key_u64(&json, "total_ns", trees->callees->nodes[TREE_ROOT].total_ns);
		tree_json(printing, &json, "callees", trees->callees);
		tree_json(printing, &json, "callers", trees->callers);
	} else {
		json_key_u64(&json, "total_ns", trees->whole->nodes[TREE_ROOT].total_ns);
		tree_json(printing, &json, "nodes", trees->whole);
	}
	json_key_u64(&json, "hidden", printing->hidden);
	json_key_u64(&json, "absorbed", trees->whole->absorbed);
	json_key_u64(&json, "strays", trees->whole->strays);
	json_key_u64(&json, "lost", trees->whole->lost);
	json_key_u64(&json, "gap_ns", trees->whole->gap_ns);
	json_object_end(&json);
	out_char(printing->out, '\n');
}

void graph_print(const struct trace *trace, struct names *names, const struct graph_trees *trees,
		 const struct graph_options *options, struct out *out)
{
	struct printing printing = {trace, names, options, out, trees->whole, 0};

	if (options->json) {
		print_json(&printing, trees);
		return;
	}
	if (trees->callees) {
		out_format(out, "# callees of '%s'\n", options->function);
		print_tree(&printing, trees->callees);
		out_format(out, "\n# callers of '%s': below each function are those that called it\n",
			   options->function);
		print_tree(&printing, trees->callers);
	} else {
		print_tree(&printing, trees->whole);
	}
	print_notes(&printing);
}
