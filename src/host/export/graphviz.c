/*
 * The graph of functions in Graphviz' language, DOT, for dot(1) and other programs.
 *
 * Context: host; see export.h.  Boxes and arrows have the exact figures as attributes of names that Graphviz does not
 * know, calls, total_ns and self_ns, beside what is drawn.
 */
#include "../view/shorten.h"
#include "drawing.h"

/* Write what is inside of a quoted string: a label's backslashes are escapes, and "&lt;" there is a character. */
static void put_escaped(struct out *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			out_char(out, '\\');
		out_char(out, *text);
		if (*text == '&')
			out_text(out, "amp;");
	}
}

static void put_figures(struct out *out, const struct tree_node *node)
{
	out_text(out, "calls=");
	out_u64(out, node->calls);
	out_text(out, ", total_ns=");
	out_u64(out, node->total_ns);
}

static void put_box(const struct drawing *drawing, struct out *out, uint32_t at)
{
	const struct tree_node *node = &drawing->graph.nodes[at];
	const char *name = names_function(drawing->names, node->function).text;
	char text[DRAWING_TEXT], shorter[SHORTEN_MAX];

	out_format(out, "\tn%u [label=\"", at);
	put_escaped(out, shorten(name, DRAWING_WIDTH, shorter));
	out_text(out, "\\n");
	out_text(out, drawing_calls(node, text));
	out_text(out, "\\n");
	out_text(out, drawing_times(drawing, node, text));
	out_text(out, "\", tooltip=\"");
	put_escaped(out, name);
	out_format(out, "\", fillcolor=\"0.05 %.3f 1.0\", ", drawing_share(drawing, node->self_ns));
	put_figures(out, node);
	out_text(out, ", self_ns=");
	out_u64(out, node->self_ns);
	out_text(out, "];\n");
}

static void put_arrow(const struct drawing *drawing, struct out *out, uint32_t from, uint32_t to,
		      const struct tree_node *edge)
{
	char text[DRAWING_TEXT];

	out_format(out, "\tn%u -> n%u [label=\"%s\", penwidth=%.2f, ", from, to, drawing_arrow(edge, text),
		   1 + 4 * drawing_share(drawing, edge->total_ns));
	put_figures(out, edge);
	out_text(out, "];\n");
}

static int write_graphviz(const struct trace *trace, const struct view_filter *filter,
			  const struct export_options *options, struct out *out, struct walk *walk,
			  struct calltap_diag *diag)
{
	static const struct drawing_way way = {put_box, put_arrow};
	struct drawing drawing;
	int err = drawing_open(&drawing, trace, filter, options->min_percent, walk, diag);

	if (!err) {
		out_text(out, "digraph calltap {\n\tgraph [charset=\"UTF-8\"];\n\tnode [shape=box, style=filled, "
			      "fontname=\"sans-serif\"];\n\tedge [fontname=\"sans-serif\"];\n");
		drawing_write(&drawing, out, &way);
		out_text(out, "}\n");
		err = out->error;
	}
	drawing_close(&drawing);
	return err;
}

const struct export_format export_graphviz = {.name = "graphviz",
					      .summary = "the graph of functions for dot",
					      .takes_min = true,
					      .sums = true,
					      .run = write_graphviz};
