/*
 * Two merged call trees as one, with what differs between them.  A side may have several trees, one of each run.
 *
 * Callers: diff.c (two traces, or several a side), slow.c (two kinds of calls of one function).  Context: host.
 */
#ifndef HOST_DIFF_TWIN_H
#define HOST_DIFF_TWIN_H

#include "../view/tree.h"
#include "pair.h"

struct twin_part {
	uint64_t calls, unfinished, total_ns, self_ns;
};

/* A tree that is added to a side. */
struct twin_input {
	const struct tree *tree;
	unsigned at; /* which of the pair's traces it is of */
	unsigned side;
	double per; /* what the times of this tree alone are divided by */
};

/* The times of one tree by itself, for the test of several runs. */
struct twin_run {
	unsigned side;
	double per;
	uint64_t *totals; /* per node, up to count; later nodes are not in the tree */
	uint32_t count;
};

struct twin {
	struct tree shape; /* its functions are names of the pair; total_ns: how much the node differs, for its order */
	struct twin_part *parts[SIDES]; /* per node */
	double *weights;		/* per node: the greatest difference in it or below it */
	uint32_t part_room;
	double per[SIDES];     /* what all times and calls of a side are divided by */
	struct twin_run *runs; /* NULL: nothing is known of single runs */
	unsigned run_count, run_room;
	double *q; /* per node, of twin_judge(): TWIN_UNTESTED, or the share of false claims among those as sure */
};

#define TWIN_UNTESTED 2.0

/*
 * Begin, add trees, then finish with what each side is divided by.  runs: so many trees will be added, and the times of
 * each are kept by themselves; 0 = they are not kept.  Release with twin_clear() even after an error.
 */
int twin_begin(struct twin *twin, unsigned runs) __attribute__((warn_unused_result));
int twin_add(struct twin *twin, struct pair *pair, const struct twin_input *input) __attribute__((warn_unused_result));
int twin_finish(struct twin *twin, const double per[SIDES]) __attribute__((warn_unused_result));
void twin_clear(struct twin *twin);

double twin_total(const struct twin *twin, unsigned side, uint32_t node);
double twin_self(const struct twin *twin, unsigned side, uint32_t node);
double twin_calls(const struct twin *twin, unsigned side, uint32_t node);
double twin_change(const struct twin *twin, uint32_t node);

/*
 * Test whether the total of a path differs between the sides by more than the runs of one side do.  Tested are the
 * paths that take at least `least` in the mean of all runs.  The times of each run must have been kept.
 */
int twin_judge(struct twin *twin, double least) __attribute__((warn_unused_result));
/* True if a node's total differs by more than the runs of one side do. */
bool twin_differs(const struct twin *twin, uint32_t node);

/* A choice of the nodes to show: those whose own difference, or one below them, is at least `least`. */
struct twin_view {
	double least;
	bool *skipped; /* per node: it only passes on what differs below it, and is not the first such caller */
};

/*
 * Show what differs by at least `least`, in at most `rows` lines (0 = any number).  Where that is more lines, the first
 * and the last of a chain of callers that only pass the difference on are shown, and then what differs most.  Release
 * with twin_view_clear() even after an error.
 */
int twin_view(struct twin_view *view, const struct twin *twin, double least, uint32_t rows)
	__attribute__((warn_unused_result));
void twin_view_clear(struct twin_view *view);
/* The next node, each before its children, with its *depth in the tree; start with TREE_ROOT and *depth = -1. */
uint32_t twin_next(const struct twin_view *view, const struct twin *twin, uint32_t node, int64_t *depth);

#endif
