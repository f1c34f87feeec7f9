/*
 * Two call trees as one; see twin.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "twin.h"

#define PASSED_ON 0.9 /* the share of a node's difference that one callee has, where the node only passes it on */

double twin_total(const struct twin *twin, unsigned side, uint32_t node)
{
	return twin->per[side] > 0 ? (double)twin->parts[side][node].total_ns / twin->per[side] : 0;
}

double twin_self(const struct twin *twin, unsigned side, uint32_t node)
{
	return twin->per[side] > 0 ? (double)twin->parts[side][node].self_ns / twin->per[side] : 0;
}

double twin_calls(const struct twin *twin, unsigned side, uint32_t node)
{
	const struct twin_part *part = &twin->parts[side][node];

	return twin->per[side] > 0 ? (double)(part->calls + part->unfinished) / twin->per[side] : 0;
}

double twin_change(const struct twin *twin, uint32_t node)
{
	return twin_total(twin, SIDE_B, node) - twin_total(twin, SIDE_A, node);
}

/* Per node of the tree: its node in the shape.  Nodes that do not fit count into their caller's. */
static int place(uint32_t *places, struct twin *twin, struct pair *pair, unsigned at, const struct tree *tree)
{
	int err = 0;

	places[TREE_ROOT] = TREE_ROOT;
	for (uint32_t i = 1; i < tree->count && !err; i++) {
		uint32_t parent = places[tree->nodes[i].parent], name = 0;

		err = pair_name(&name, pair, at, tree->nodes[i].function);
		if (!err)
			places[i] = tree_child(&twin->shape, parent, name, &err);
		if (!err && places[i] == TREE_NONE)
			places[i] = parent;
	}
	return err;
}

static void add_parts(struct twin *twin, unsigned side, const struct tree *tree, const uint32_t *places)
{
	for (uint32_t i = 1; i < tree->count; i++) {
		const struct tree_node *node = &tree->nodes[i];
		struct twin_part *part = &twin->parts[side][places[i]];

		part->self_ns += node->self_ns;
		if (places[i] == places[node->parent])
			continue; /* it did not fit, and its total is in its caller's */
		part->calls += node->calls - node->unfinished;
		part->unfinished += node->unfinished;
		part->total_ns += node->total_ns;
	}
}

static void sum_root(struct twin *twin)
{
	for (unsigned side = 0; side < SIDES; side++) {
		struct twin_part *root = &twin->parts[side][TREE_ROOT];

		for (uint32_t at = twin->shape.nodes[TREE_ROOT].child; at != TREE_NONE;
		     at = twin->shape.nodes[at].next) {
			root->calls += twin->parts[side][at].calls;
			root->unfinished += twin->parts[side][at].unfinished;
			root->total_ns += twin->parts[side][at].total_ns;
		}
	}
}

/* A child comes behind its parent in the array. */
static void weigh(struct twin *twin)
{
	for (uint32_t i = twin->shape.count; i-- > 0;) {
		double change = fabs(twin_change(twin, i));
		uint32_t parent = twin->shape.nodes[i].parent;

		twin->shape.nodes[i].total_ns = change < 1.8e19 ? (uint64_t)change : UINT64_MAX;
		twin->weights[i] = fmax(twin->weights[i], change);
		if (parent != TREE_NONE)
			twin->weights[parent] = fmax(twin->weights[parent], twin->weights[i]);
	}
}

int twin_begin(struct twin *twin, unsigned runs)
{
	memset(twin, 0, sizeof(*twin));
	twin->run_room = runs;
	twin->runs = runs ? calloc(runs, sizeof(*twin->runs)) : NULL;
	return runs && !twin->runs ? -ENOMEM : tree_init(&twin->shape, TREE_NODES_MAX);
}

/* Make parts for all nodes of the shape. */
static int grow_parts(struct twin *twin)
{
	uint32_t room = twin->shape.count;

	for (unsigned side = 0; side < SIDES; side++) {
		struct twin_part *parts = reallocarray(twin->parts[side], room, sizeof(*parts));

		if (!parts)
			return -ENOMEM;
		memset(parts + twin->part_room, 0, (room - twin->part_room) * sizeof(*parts));
		twin->parts[side] = parts;
	}
	twin->part_room = room;
	return 0;
}

/* Keep a tree's totals by themselves. */
static int add_run(struct twin *twin, const struct twin_input *input, const uint32_t *places)
{
	struct twin_run *run = &twin->runs[twin->run_count];

	*run = (struct twin_run){.side = input->side, .per = input->per, .count = twin->shape.count};
	run->totals = calloc(run->count, sizeof(*run->totals));
	if (!run->totals)
		return -ENOMEM;
	twin->run_count++;
	for (uint32_t i = 1; i < input->tree->count; i++) {
		const struct tree_node *node = &input->tree->nodes[i];

		if (places[i] != places[node->parent])
			run->totals[places[i]] += node->total_ns;
	}
	return 0;
}

int twin_add(struct twin *twin, struct pair *pair, const struct twin_input *input)
{
	uint32_t *places = malloc(input->tree->count * sizeof(*places));
	int err = places ? place(places, twin, pair, input->at, input->tree) : -ENOMEM;

	if (!err)
		err = grow_parts(twin);
	if (!err)
		add_parts(twin, input->side, input->tree, places);
	if (!err && twin->run_count < twin->run_room)
		err = add_run(twin, input, places);
	free(places);
	return err;
}

int twin_finish(struct twin *twin, const double per[SIDES])
{
	twin->weights = calloc(twin->shape.count, sizeof(*twin->weights));
	if (!twin->weights)
		return -ENOMEM;
	for (unsigned side = 0; side < SIDES; side++)
		twin->per[side] = per[side];
	sum_root(twin);
	weigh(twin);
	return tree_sort(&twin->shape);
}

void twin_clear(struct twin *twin)
{
	tree_clear(&twin->shape);
	for (unsigned i = 0; i < twin->run_count; i++)
		free(twin->runs[i].totals);
	free(twin->runs);
	free(twin->parts[SIDE_A]);
	free(twin->parts[SIDE_B]);
	free(twin->weights);
	free(twin->q);
	memset(twin, 0, sizeof(*twin));
}

static uint32_t skip_to(const struct twin_view *view, const struct twin *twin, uint32_t node, int64_t *depth)
{
	bool folded = false;

	do {
		node = tree_next(&twin->shape, node, folded, depth);
		folded = node != TREE_NONE && twin->weights[node] < view->least;
	} while (folded);
	return node;
}

uint32_t twin_next(const struct twin_view *view, const struct twin *twin, uint32_t node, int64_t *depth)
{
	do
		node = skip_to(view, twin, node, depth);
	while (node != TREE_NONE && view->skipped[node]);
	return node;
}

/* The one callee of a node that is shown, if nearly all that differs in the node differs there; else TREE_NONE. */
static uint32_t heir(const struct twin_view *view, const struct twin *twin, uint32_t node)
{
	uint32_t shown = TREE_NONE;

	for (uint32_t at = twin->shape.nodes[node].child; at != TREE_NONE; at = twin->shape.nodes[at].next) {
		if (twin->weights[at] < view->least)
			continue;
		if (shown != TREE_NONE)
			return TREE_NONE;
		shown = at;
	}
	return shown != TREE_NONE && fabs(twin_change(twin, shown)) >= PASSED_ON * fabs(twin_change(twin, node))
		       ? shown
		       : TREE_NONE;
}

/* Mark what is passed over, if chains are to be short; returns how many lines are left. */
static uint32_t mark(struct twin_view *view, const struct twin *twin, bool short_chains)
{
	uint32_t lines = 0;
	int64_t depth = -1;

	memset(view->skipped, 0, twin->shape.count * sizeof(*view->skipped));
	for (uint32_t at = TREE_ROOT; (at = skip_to(view, twin, at, &depth)) != TREE_NONE;) {
		uint32_t parent = twin->shape.nodes[at].parent;

		view->skipped[at] = short_chains && parent != TREE_ROOT && heir(view, twin, parent) == at &&
				    heir(view, twin, at) != TREE_NONE;
		lines += !view->skipped[at];
	}
	return lines;
}

static int compare_weights(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a > b ? -1 : a < b;
}

int twin_view(struct twin_view *view, const struct twin *twin, double least, uint32_t rows)
{
	uint32_t count = twin->shape.count, low = 0, high;
	double *sorted;

	*view = (struct twin_view){.least = least, .skipped = calloc(count, sizeof(*view->skipped))};
	if (!view->skipped)
		return -ENOMEM;
	if (mark(view, twin, false) <= rows || !rows || mark(view, twin, true) <= rows)
		return 0;
	sorted = malloc(count * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, twin->weights, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_weights);
	for (high = 0; high < count && sorted[high] >= least; high++)
		;
	/* A search for how many of the greatest differences fit into the rows: `low` fit, `high` do not. */
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		view->least = sorted[middle - 1];
		if (mark(view, twin, true) <= rows)
			low = middle;
		else
			high = middle;
	}
	view->least = low ? sorted[low - 1] : INFINITY;
	mark(view, twin, true);
	free(sorted);
	return 0;
}

void twin_view_clear(struct twin_view *view)
{
	free(view->skipped);
	memset(view, 0, sizeof(*view));
}
