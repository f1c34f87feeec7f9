/*
 * Printing two call trees as one; see twin_text.h.  Context: host.
 */
#include <stdio.h>
#include <string.h>

#include "../view/shorten.h"
#include "../view/term.h"
#include "change.h"
#include "twin_text.h"

#define TIME_WIDTH  10u
#define CALLS_WIDTH 9u
#define Q_WIDTH	    9u
#define INDENT_MAX  128u
#define NAME_MIN    16u

struct printing {
	const struct twin *twin;
	const struct pair *pair;
	const struct twin_view *view;
	unsigned width;
	struct out *out;
};

static void print_heading(const struct twin *twin, const struct twin_titles *titles, bool color, struct out *out)
{
	if (color)
		out_text(out, TERM_BOLD);
	out_column(out, titles->change, TIME_WIDTH, true);
	out_column(out, titles->time_a, TIME_WIDTH, true);
	out_column(out, titles->time_b, TIME_WIDTH, true);
	out_column(out, titles->calls_a, CALLS_WIDTH, true);
	out_column(out, titles->calls_b, CALLS_WIDTH, true);
	if (twin->q)
		out_column(out, "q  ", Q_WIDTH, true);
	out_text(out, "  Function");
	if (color)
		out_text(out, TERM_RESET);
	out_char(out, '\n');
}

/* Callers between the node and the nearest one above that has a line; *indent: how many lines above it are its
 * callers'. */
static uint32_t passed_over(const struct printing *printing, uint32_t node, uint32_t *indent)
{
	uint32_t over = 0;
	bool near = true;

	*indent = 0;
	for (uint32_t at = printing->twin->shape.nodes[node].parent; at != TREE_ROOT;
	     at = printing->twin->shape.nodes[at].parent) {
		near &= printing->view->skipped[at];
		over += near;
		*indent += !printing->view->skipped[at];
	}
	return over;
}

static const char *calls_text(const struct twin *twin, unsigned side, uint32_t node, char text[CHANGE_TEXT])
{
	double calls = twin_calls(twin, side, node);

	return calls > 0 ? change_count(calls, text) : "-";
}

/* The share of chance among claims as sure, and a mark where the node differs by more than the runs do. */
static const char *q_text(const struct twin *twin, uint32_t node, char text[CHANGE_TEXT])
{
	const char *mark = twin_differs(twin, node) ? " *" : "  ";
	double q = twin->q[node];

	if (q >= TWIN_UNTESTED)
		snprintf(text, CHANGE_TEXT, "-%s", mark);
	else if (q < 0.0005)
		snprintf(text, CHANGE_TEXT, "<0.001%s", mark);
	else
		snprintf(text, CHANGE_TEXT, "%.3f%s", q, mark);
	return text;
}

static void print_node(struct printing *printing, uint32_t node)
{
	const struct twin *twin = printing->twin;
	struct out *out = printing->out;
	char text[CHANGE_TEXT], name[SHORTEN_MAX];
	const char *function = pair_text(printing->pair, twin->shape.nodes[node].function);
	uint32_t indent, over = passed_over(printing, node, &indent);
	unsigned used = 3 * TIME_WIDTH + 2 * CALLS_WIDTH + (twin->q ? Q_WIDTH : 0) + 2;

	out_column(out, change_signed(twin_change(twin, node), text), TIME_WIDTH, true);
	for (unsigned side = 0; side < SIDES; side++)
		out_column(out,
			   twin->parts[side][node].total_ns ? change_time(twin_total(twin, side, node), text) : "-",
			   TIME_WIDTH, true);
	out_column(out, calls_text(twin, SIDE_A, node, text), CALLS_WIDTH, true);
	out_column(out, calls_text(twin, SIDE_B, node, text), CALLS_WIDTH, true);
	if (twin->q)
		out_column(out, q_text(twin, node, text), Q_WIDTH, true);
	indent = indent * 2 < INDENT_MAX ? indent * 2 : INDENT_MAX;
	if (printing->width && indent + used + NAME_MIN > printing->width)
		indent = used + NAME_MIN < printing->width ? printing->width - used - NAME_MIN : 0;
	out_spaces(out, indent + 2);
	used += indent;
	if (over) {
		snprintf(text, sizeof(text), "..%u.. ", over);
		out_text(out, text);
		used += (unsigned)strlen(text);
	}
	out_text(out, printing->width ? shorten(function, used + 8 < printing->width ? printing->width - used : 8, name)
				      : function);
	out_char(out, '\n');
}

uint32_t twin_print(const struct twin *twin, const struct pair *pair, const struct twin_view *view,
		    const struct twin_titles *titles, unsigned width, bool color, struct out *out)
{
	struct printing printing = {twin, pair, view, width, out};
	uint32_t lines = 1;
	int64_t depth = -1;

	print_heading(twin, titles, color, out);
	for (uint32_t at = TREE_ROOT; (at = twin_next(view, twin, at, &depth)) != TREE_NONE; lines++)
		print_node(&printing, at);
	return lines;
}

static void part_json(const struct twin_part *part, struct json *json)
{
	json_object(json);
	json_key_u64(json, "calls", part->calls);
	json_key_u64(json, "unfinished", part->unfinished);
	json_key_u64(json, "total_ns", part->total_ns);
	json_key_u64(json, "self_ns", part->self_ns);
	json_object_end(json);
}

/* With several runs: the path's total in each run, and whether the sides differ by more than the runs do. */
static void runs_json(const struct twin *twin, uint32_t node, struct json *json)
{
	static const char *const keys[SIDES] = {"a_runs_ns", "b_runs_ns"};

	for (unsigned side = 0; side < SIDES; side++) {
		json_key(json, keys[side]);
		json_array(json);
		for (unsigned i = 0; i < twin->run_count; i++) {
			const struct twin_run *run = &twin->runs[i];

			if (run->side == side)
				json_u64(json, node < run->count ? run->totals[node] : 0);
		}
		json_array_end(json);
	}
	json_key(json, "differs");
	json_bool(json, twin_differs(twin, node));
	if (twin->q[node] < TWIN_UNTESTED)
		change_json(json, "q", twin->q[node]);
}

void twin_json(const struct twin *twin, const struct pair *pair, const struct twin_view *view, struct json *json)
{
	int64_t depth = -1;
	bool folded = false;

	json_array(json);
	for (uint32_t at = TREE_ROOT; (at = tree_next(&twin->shape, at, folded, &depth)) != TREE_NONE;) {
		const struct tree_node *node = &twin->shape.nodes[at];

		folded = twin->weights[at] < view->least;
		if (folded)
			continue;
		tree_json_begin(json, &twin->shape, at, depth);
		json_key_string(json, "function", pair_raw(pair, node->function));
		json_key(json, "a");
		part_json(&twin->parts[SIDE_A][at], json);
		json_key(json, "b");
		part_json(&twin->parts[SIDE_B][at], json);
		change_json(json, "total_change_ns", twin_change(twin, at));
		change_json(json, "self_change_ns", twin_self(twin, SIDE_B, at) - twin_self(twin, SIDE_A, at));
		if (twin->q)
			runs_json(twin, at, json);
		json_object_end(json);
		out_char(json->out, '\n');
	}
	json_array_end(json);
}
