/*
 * Functions that do more with their return address than return to it, and those that end in a jump to one: in a traced
 * function that jumps there, that address is a stub's (find.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "find.h"

static int compare_edges(const void *a, const void *b)
{
	const struct edge *left = a, *right = b;

	return (left->to > right->to) - (left->to < right->to);
}

/* The first edge that leads to a start, by its index; edge_count = none. */
static size_t first_edge(const struct finding *finding, uint32_t to)
{
	size_t low = 0, high = finding->edge_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (finding->edges[middle].to < to)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int find_closure(struct finding *finding)
{
	uint32_t *queue = calloc(finding->start_count + 1, sizeof(*queue));
	size_t head = 0, tail = 0;

	if (!queue)
		return -ENOMEM;
	if (finding->edge_count)
		qsort(finding->edges, finding->edge_count, sizeof(*finding->edges), compare_edges);
	for (size_t i = 0; i < finding->start_count; i++)
		if (finding->starts[i].keeps)
			queue[tail++] = (uint32_t)i;
	while (head < tail) {
		uint32_t to = queue[head++];

		for (size_t i = first_edge(finding, to); i < finding->edge_count && finding->edges[i].to == to; i++) {
			struct start *from = &finding->starts[finding->edges[i].from];

			if (from->keeps)
				continue;
			from->keeps = true;
			queue[tail++] = finding->edges[i].from;
		}
	}
	free(queue);
	/* What is true of a function is true of the symbols within it. */
	for (size_t i = 0; i < finding->start_count; i++)
		finding->starts[i].keeps |= finding->starts[finding->starts[i].host].keeps;
	return 0;
}
