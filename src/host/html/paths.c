/*
 * Call paths and durations (paths.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "paths.h"

struct collector {
	struct paths *paths;
	struct tree_builder builder;
};

static void push_frame(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct collector *collector = ctx;

	tree_enter(&collector->builder, walk, thread, frame);
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct collector *collector = ctx;

	tree_leave(&collector->builder, walk, closed);
	if (closed->frame->enter_known && !closed->frame->before &&
	    histogram_add(&collector->paths->durations, walk_duration_ns(walk, closed)))
		walk->error = -ENOMEM;
}

static void take_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct collector *collector = ctx;

	if (event->kind != CALLTAP_REC_CALL)
		return;
	collector->paths->untimed++;
	if (histogram_add(&collector->paths->durations, 0))
		walk->error = -ENOMEM;
}

static const struct walk_ops collecting = {
	.cuts = true, .on_push = push_frame, .on_close = close_call, .on_event = take_event};

static void add_counts(struct tree_node *to, const struct tree_node *from)
{
	to->calls += from->calls;
	to->total_ns += from->total_ns;
	to->self_ns += from->self_ns;
	to->unfinished += from->unfinished;
}

static bool is_thread(const struct tree *tree, uint32_t node)
{
	return tree->nodes[node].parent == TREE_ROOT && tree->nodes[node].function & TREE_THREAD;
}

/* Merge the threads' trees to one, and sum up each thread. */
static int merge_threads(struct tree *whole, struct tree *threads)
{
	uint32_t *copy = malloc((size_t)threads->count * sizeof(*copy)); /* per node of threads: its node of whole */
	int err = copy ? 0 : -ENOMEM;

	if (copy)
		copy[TREE_ROOT] = TREE_ROOT;
	for (uint32_t i = 1; i < threads->count && !err; i++) {
		struct tree_node *node = &threads->nodes[i];

		if (is_thread(threads, i)) {
			copy[i] = TREE_ROOT;
			node->total_ns = 0;
			continue;
		}
		if (is_thread(threads, node->parent))
			add_counts(&threads->nodes[node->parent],
				   &(struct tree_node){.calls = node->calls, .total_ns = node->total_ns});
		copy[i] = tree_child(whole, copy[node->parent], node->function, &err);
		if (copy[i] == TREE_NONE && !err)
			err = -ENOMEM; /* it has no more nodes than the other tree */
		if (!err)
			add_counts(&whole->nodes[copy[i]], node);
	}
	free(copy);
	tree_sum(whole);
	tree_sum(threads);
	return err;
}

int paths_collect(struct paths *paths, const struct trace *trace, const struct view_filter *filter, struct walk *walk,
		  struct calltap_diag *diag)
{
	struct collector collector = {.paths = paths, .builder = {.tree = &paths->threads, .by_thread = true}};
	int err;

	*paths = (struct paths){0};
	err = tree_init(&paths->threads, TREE_NODES_MAX);
	if (!err)
		err = tree_init(&paths->whole, TREE_NODES_MAX);
	if (!err)
		err = walk_run(walk, trace, filter, &collecting, &collector, diag);
	return err ? err : merge_threads(&paths->whole, &paths->threads);
}

void paths_levels(const struct paths *paths, const struct trace *trace, struct levels *levels)
{
	uint64_t busy_ns = 0;

	*levels = (struct levels){.threshold_ns = histogram_floor(&paths->durations, LEVELS_KEPT)};
	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		if (thread && thread->end_ticks > thread->start_ticks)
			busy_ns += trace_duration_ns(trace, thread->end_ticks - thread->start_ticks);
	}
	levels->cut_ns = busy_ns / LEVELS_CUTS + 1;
}

static int compare_totals(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

uint64_t paths_least(uint64_t *totals, uint32_t count)
{
	if (count <= LEVELS_PATHS)
		return 0;
	qsort(totals, count, sizeof(*totals), compare_totals);
	return totals[LEVELS_PATHS] + 1;
}

static int least_total(const struct tree *tree, uint64_t *least)
{
	uint64_t *totals = malloc((size_t)tree->count * sizeof(*totals));

	if (!totals)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->count; i++)
		totals[i] = tree->nodes[i].total_ns;
	*least = paths_least(totals, tree->count);
	free(totals);
	return 0;
}

/* Write a tree: each node behind its parent, as the distance to it; a thread's number stands for its function. */
static int put_tree(struct tree *tree, const char *const names[5], struct columns *columns, struct used *used,
		    uint64_t *left, uint64_t *least)
{
	uint32_t *place = malloc((size_t)tree->count * sizeof(*place)); /* per node: its place among those written */
	struct column *list[5];
	uint32_t places = 1;
	int err = place ? least_total(tree, least) : -ENOMEM;

	for (unsigned i = 0; i < 5; i++)
		list[i] = columns_add(columns, names[i]);
	if (!err)
		place[TREE_ROOT] = 0;
	for (uint32_t i = 1; i < tree->count && !err; i++) {
		const struct tree_node *node = &tree->nodes[i];

		place[i] = TREE_NONE;
		if (node->total_ns < *least || place[node->parent] == TREE_NONE) {
			++*left;
			continue;
		}
		place[i] = places++;
		columns_put(columns, list[0], place[i] - place[node->parent]);
		columns_put(columns, list[1],
			    is_thread(tree, i) ? node->function & ~TREE_THREAD : used_number(used, node->function));
		columns_put(columns, list[2], node->calls);
		columns_put(columns, list[3], node->total_ns);
		columns_put(columns, list[4], node->self_ns);
	}
	free(place);
	return err;
}

struct pair {
	uint32_t caller, callee; /* numbers of used functions */
	uint64_t calls, total_ns;
};

static int by_functions(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;

	if (a->caller != b->caller)
		return a->caller < b->caller ? -1 : 1;
	return a->callee < b->callee ? -1 : a->callee > b->callee;
}

static int by_total(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;

	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	if (a->calls != b->calls)
		return a->calls < b->calls ? 1 : -1;
	return by_functions(left, right);
}

/* Sum the nodes of equal caller and callee; returns how many pairs there are. */
static uint32_t merge_pairs(struct pair *pairs, uint32_t count)
{
	uint32_t kept = 0;

	qsort(pairs, count, sizeof(*pairs), by_functions);
	for (uint32_t i = 0; i < count; i++) {
		if (kept && by_functions(&pairs[kept - 1], &pairs[i]) == 0) {
			pairs[kept - 1].calls += pairs[i].calls;
			pairs[kept - 1].total_ns += pairs[i].total_ns;
		} else {
			pairs[kept++] = pairs[i];
		}
	}
	return kept;
}

static int put_pairs(struct paths *paths, struct columns *columns, struct used *used)
{
	const struct tree *tree = &paths->whole;
	struct pair *pairs = malloc((size_t)tree->count * sizeof(*pairs));
	struct column *caller = columns_add(columns, "pair.caller"), *callee = columns_add(columns, "pair.callee");
	struct column *calls = columns_add(columns, "pair.calls"), *total = columns_add(columns, "pair.total");
	uint32_t count = 0;

	if (!pairs)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->count; i++) {
		const struct tree_node *node = &tree->nodes[i];

		if (node->parent == TREE_ROOT)
			continue;
		pairs[count++] = (struct pair){used_number(used, tree->nodes[node->parent].function),
					       used_number(used, node->function), node->calls, node->total_ns};
	}
	count = merge_pairs(pairs, count);
	qsort(pairs, count, sizeof(*pairs), by_total);
	paths->pairs_left = count > LEVELS_PAIRS ? count - LEVELS_PAIRS : 0;
	for (uint32_t i = 0; i < count && i < LEVELS_PAIRS; i++) {
		columns_put(columns, caller, pairs[i].caller);
		columns_put(columns, callee, pairs[i].callee);
		columns_put(columns, calls, pairs[i].calls);
		columns_put(columns, total, pairs[i].total_ns);
	}
	free(pairs);
	return 0;
}

int paths_put(struct paths *paths, struct columns *columns, struct used *used)
{
	static const char *const whole[] = {"whole.up", "whole.function", "whole.calls", "whole.total", "whole.self"};
	static const char *const threads[] = {"threads.up", "threads.function", "threads.calls", "threads.total",
					      "threads.self"};
	int err = put_tree(&paths->whole, whole, columns, used, &paths->whole_left, &paths->whole_min_ns);

	if (!err)
		err = put_tree(&paths->threads, threads, columns, used, &paths->threads_left, &paths->threads_min_ns);
	return err ? err : put_pairs(paths, columns, used);
}

void paths_clear(struct paths *paths)
{
	tree_clear(&paths->threads);
	tree_clear(&paths->whole);
	histogram_clear(&paths->durations);
}
