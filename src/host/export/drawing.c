/*
 * Graphs to draw (drawing.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <host/text.h>

#include "host/counted.h"
#include "drawing.h"

double drawing_share(const struct drawing *drawing, uint64_t ns)
{
	uint64_t whole = drawing->graph.nodes[TREE_ROOT].total_ns;

	return !whole ? 0 : ns > whole ? 1 : (double)ns / (double)whole;
}

/* The node of the function that an arrow goes to; TREE_NONE: it is not shown.  It is one of the graph, so nothing is
 * made here. */
static uint32_t target_of(struct drawing *drawing, uint32_t edge)
{
	int err = 0;
	uint32_t node = tree_child(&drawing->graph, TREE_ROOT, drawing->graph.nodes[edge].function, &err);

	return node <= drawing->functions && drawing->shown[node] ? node : TREE_NONE;
}

static uint32_t shown_from(const struct drawing *drawing, uint32_t node)
{
	while (node != TREE_NONE && !drawing->shown[node])
		node = drawing->graph.nodes[node].next;
	return node;
}

static void write_arrows(struct drawing *drawing, struct out *out, const struct drawing_way *way, uint32_t from)
{
	for (uint32_t at = drawing->graph.nodes[from].child; at != TREE_NONE; at = drawing->graph.nodes[at].next) {
		uint32_t to = target_of(drawing, at);

		if (to == TREE_NONE)
			continue;
		way->arrow(drawing, out, from, to, &drawing->graph.nodes[at]);
		drawing->arrows++;
	}
}

void drawing_write(struct drawing *drawing, struct out *out, const struct drawing_way *way)
{
	const struct tree_node *nodes = drawing->graph.nodes;
	uint32_t first = shown_from(drawing, nodes[TREE_ROOT].child);

	for (uint32_t at = first; at != TREE_NONE; at = shown_from(drawing, nodes[at].next))
		way->box(drawing, out, at);
	for (uint32_t at = first; at != TREE_NONE; at = shown_from(drawing, nodes[at].next))
		write_arrows(drawing, out, way, at);
}

static void choose(struct drawing *drawing, double min_percent)
{
	for (uint32_t i = 1; i <= drawing->functions; i++) {
		const struct tree_node *node = &drawing->graph.nodes[i];
		/* A call whose times are not known is drawn, too: the function was called. */
		bool any = node->calls || node->before || node->total_ns;

		drawing->shown[i] = any && 100 * drawing_share(drawing, node->total_ns) >= min_percent;
		drawing->boxes += drawing->shown[i];
		drawing->hidden += any && !drawing->shown[i];
	}
}

int drawing_open(struct drawing *drawing, const struct trace *trace, const struct view_filter *filter,
		 double min_percent, struct walk *walk, struct calltap_diag *diag)
{
	int err;

	*drawing = (struct drawing){0};
	err = export_functions(&drawing->graph, &drawing->functions, trace, filter, walk, diag);
	if (err)
		return err;
	drawing->shown = calloc((size_t)drawing->functions + 1, sizeof(*drawing->shown));
	if (names_create(&drawing->names, trace) || !drawing->shown)
		return calltap_diag_set(diag, -ENOMEM, "out of memory for the names");
	choose(drawing, min_percent);
	if (drawing->hidden)
		fprintf(stderr,
			"calltap: %llu %s less than %g percent of the time %s left out: --min-percent 0 draws all\n",
			(unsigned long long)drawing->hidden, counted(drawing->hidden, "function of", "functions of"),
			min_percent, counted(drawing->hidden, "is", "are"));
	return 0;
}

void drawing_close(struct drawing *drawing)
{
	free(drawing->shown);
	names_destroy(drawing->names);
	tree_clear(&drawing->graph);
}

const char *drawing_calls(const struct tree_node *node, char text[DRAWING_TEXT])
{
	snprintf(text, DRAWING_TEXT, "%llu %s", (unsigned long long)node->calls, counted(node->calls, "call", "calls"));
	return text;
}

const char *drawing_times(const struct drawing *drawing, const struct tree_node *node, char text[DRAWING_TEXT])
{
	char total[TIMETEXT_MAX], self[TIMETEXT_MAX];

	snprintf(text, DRAWING_TEXT, "total %s (%.1f %%), self %s", timetext(node->total_ns, total),
		 100 * drawing_share(drawing, node->total_ns), timetext(node->self_ns, self));
	return text;
}

const char *drawing_arrow(const struct tree_node *edge, char text[DRAWING_TEXT])
{
	char time[TIMETEXT_MAX];

	snprintf(text, DRAWING_TEXT, "%llu %s, %s", (unsigned long long)edge->calls,
		 counted(edge->calls, "call", "calls"), timetext(edge->total_ns, time));
	return text;
}
