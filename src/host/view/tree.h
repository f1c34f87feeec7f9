/*
 * A merged call tree: all calls along the same path of callers are one node.
 *
 * Callers: graph.c, the folded exporter and the page of `calltap html`.  Context: host.  Memory is bounded by a limit
 * on nodes: calls beyond it, or deeper than a level, are counted into the node of the nearest caller that has one, and
 * in `absorbed`.
 */
#ifndef HOST_VIEW_TREE_H
#define HOST_VIEW_TREE_H

#include "walk.h"

struct json;

#define TREE_ROOT      0u
#define TREE_NONE      UINT32_MAX
#define TREE_NODES_MAX (2u << 20) /* 128 MiB of nodes, 16 MiB of hash */

struct tree_node {
	uint32_t function;
	uint32_t parent; /* less than the node's own index; TREE_NONE for the root */
	uint32_t child;	 /* first one, TREE_NONE = none */
	uint32_t next;	 /* sibling */
	uint64_t calls;
	uint64_t total_ns; /* open calls count up to the end of the trace */
	uint64_t self_ns;
	uint64_t unfinished;	/* calls that are open at the end, or whose exit was lost */
	uint64_t tails;		/* calls by a tail call of the parent's function */
	uint64_t before : 63;	/* frames that were open when the trace began; their total is that of their callees */
	uint64_t estimated : 1; /* some call's duration is an estimate */
};

struct tree {
	struct tree_node *nodes; /* nodes[TREE_ROOT] stands for the whole trace */
	uint32_t count;
	uint32_t limit;
	uint32_t room;
	uint32_t *buckets; /* hash of (parent, function) to node; 0 = free */
	uint32_t bucket_bits;
	uint64_t absorbed; /* calls counted into a caller's node for want of room */
	uint64_t strays;   /* calls whose entry is not in the trace, so that their place is not known */
	uint64_t lost;	   /* records */
	uint64_t gap_ns;   /* as in struct report */
	bool estimated;	   /* some node is: so may be each self time that is not the whole call */
};

int tree_init(struct tree *tree, uint32_t limit) __attribute__((warn_unused_result));
void tree_clear(struct tree *tree);
/* The child of parent for function, made when new; TREE_NONE at the limit, *err set when out of memory. */
uint32_t tree_child(struct tree *tree, uint32_t parent, uint32_t function, int *err);
/* Siblings in falling order of total, then of calls and rising function. */
int tree_sort(struct tree *tree) __attribute__((warn_unused_result));
/* The next node, each before its children, with its *depth.  Start with TREE_ROOT and *depth = -1. */
uint32_t tree_next(const struct tree *tree, uint32_t node, bool skip_children, int64_t *depth);

struct tree_builder {
	struct tree *tree;
	uint32_t depth_max; /* calls below so many levels are absorbed; 0 = none */
	bool by_thread; /* the root's children are threads (function: TREE_THREAD | index), with the calls in them */
};

#define TREE_THREAD (1u << 31)

/* Build the tree of a trace. */
int tree_build(struct tree_builder *builder, const struct trace *trace, const struct view_filter *filter,
	       struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));
/*
 * The steps of tree_build(), for a consumer with a pass of its own, as its on_push and on_close (struct walk_ops); they
 * take the frames' user words.
 */
void tree_enter(struct tree_builder *builder, struct walk *walk, uint32_t thread, struct call_frame *frame);
void tree_leave(struct tree_builder *builder, struct walk *walk, const struct call_closed *closed);
/* Sum the calls and totals of the root's children into the root. */
void tree_sum(struct tree *tree);

/* Begin the JSON object of a node: where it is in the tree.  json.h */
void tree_json_begin(struct json *json, const struct tree *tree, uint32_t at, int64_t depth);

#endif
