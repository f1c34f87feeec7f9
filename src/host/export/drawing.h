/*
 * The graph of functions as something to draw: which functions are shown, and the texts at boxes and arrows.
 *
 * Callers: graphviz.c, mermaid.c.  Context: host.
 */
#ifndef HOST_EXPORT_DRAWING_H
#define HOST_EXPORT_DRAWING_H

#include "../view/names.h"
#include "../view/tree.h"
#include "export.h"

struct drawing {
	struct names *names;
	struct tree graph;
	uint32_t functions; /* nodes of functions are 1 to functions */
	bool *shown;	    /* per node of a function */
	uint64_t boxes, arrows, hidden;
};

/* Make the graph of a trace; for drawing_close() whatever is returned.  0, or -errno with diag. */
int drawing_open(struct drawing *drawing, const struct trace *trace, const struct view_filter *filter,
		 double min_percent, struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));
void drawing_close(struct drawing *drawing);

/* How a format writes a function's box, and an arrow from one function's box to another's. */
struct drawing_way {
	void (*box)(const struct drawing *drawing, struct out *out, uint32_t node);
	void (*arrow)(const struct drawing *drawing, struct out *out, uint32_t from, uint32_t to,
		      const struct tree_node *edge);
};
/* Write the boxes of all functions to show, and then the arrows between them, which are counted. */
void drawing_write(struct drawing *drawing, struct out *out, const struct drawing_way *way);

/* The share of the whole, 0 to 1. */
double drawing_share(const struct drawing *drawing, uint64_t ns);
/* The lines at a box behind the function's name, which is shortened with shorten(), and the text at an arrow. */
#define DRAWING_WIDTH 60
#define DRAWING_TEXT  128
const char *drawing_calls(const struct tree_node *node, char text[DRAWING_TEXT]);
const char *drawing_times(const struct drawing *drawing, const struct tree_node *node, char text[DRAWING_TEXT]);
const char *drawing_arrow(const struct tree_node *edge, char text[DRAWING_TEXT]);

#endif
