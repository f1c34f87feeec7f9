/*
 * The graph of functions as a flowchart of Mermaid, which Markdown viewers draw.
 *
 * Context: host; see export.h.  Comments have the exact figures of boxes and arrows beside what is drawn.
 */
#include <ctype.h>
#include <stdio.h>

#include "../view/shorten.h"
#include <host/utf8.h>
#include "drawing.h"

#define EDGES_MAX 500u /* what Mermaid draws unless its setting maxEdges says else */

/* Write a text of a quoted label: letters, digits and what is harmless as they are, others as entities, "#35;". */
static void put_label(struct out *out, const char *text)
{
	while (*text) {
		size_t run = utf8_length(text);
		uint32_t code = (unsigned char)*text & (run > 1 ? 0x7fu >> run : 0x7fu);

		for (size_t i = 1; i < run; i++)
			code = code << 6 | ((unsigned char)text[i] & 0x3fu);
		if (code < 0x80 && (isalnum((int)code) || strchr(" _.,:()", (int)code)))
			out_char(out, (char)code);
		else
			out_format(out, "#%u;", code);
		text += run ? run : 1;
	}
}

static void put_box(const struct drawing *drawing, struct out *out, uint32_t at)
{
	const struct tree_node *node = &drawing->graph.nodes[at];
	char text[DRAWING_TEXT], shorter[SHORTEN_MAX];

	out_format(out, "    n%u[\"", at);
	put_label(out, shorten(names_function(drawing->names, node->function).text, DRAWING_WIDTH, shorter));
	out_text(out, "<br/>");
	put_label(out, drawing_calls(node, text));
	out_text(out, "<br/>");
	put_label(out, drawing_times(drawing, node, text));
	out_format(out, "\"]\n    %%%% n%u: calls %llu, total %llu ns, self %llu ns\n", at,
		   (unsigned long long)node->calls, (unsigned long long)node->total_ns,
		   (unsigned long long)node->self_ns);
}

static void put_arrow(const struct drawing *drawing, struct out *out, uint32_t from, uint32_t to,
		      const struct tree_node *edge)
{
	char text[DRAWING_TEXT];

	out_format(out, "    n%u -->|\"", from);
	put_label(out, drawing_arrow(edge, text));
	out_format(out, "\"| n%u\n    %%%% n%u to n%u: calls %llu, total %llu ns\n", to, from, to,
		   (unsigned long long)edge->calls, (unsigned long long)edge->total_ns);
}

static int write_mermaid(const struct trace *trace, const struct view_filter *filter,
			 const struct export_options *options, struct out *out, struct walk *walk,
			 struct calltap_diag *diag)
{
	static const struct drawing_way way = {put_box, put_arrow};
	struct drawing drawing;
	int err = drawing_open(&drawing, trace, filter, options->min_percent, walk, diag);

	if (!err) {
		out_text(out, "flowchart TD\n");
		drawing_write(&drawing, out, &way);
		err = out->error;
	}
	if (!err && drawing.arrows > EDGES_MAX)
		fprintf(stderr,
			"calltap: the flowchart has %llu arrows and Mermaid draws %u, unless maxEdges is raised: give "
			"a "
			"greater --min-percent\n",
			(unsigned long long)drawing.arrows, EDGES_MAX);
	drawing_close(&drawing);
	return err;
}

const struct export_format export_mermaid = {.name = "mermaid",
					     .summary = "the graph of functions as a flowchart for Markdown",
					     .takes_min = true,
					     .sums = true,
					     .run = write_mermaid};
