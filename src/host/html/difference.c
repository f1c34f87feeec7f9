/*
 * The differential tree of the page (difference.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "difference.h"
#include "paths.h"
#include "texts.h"

#define NAME_MAX 1000u /* bytes */

static uint64_t greater_total(const struct twin *twin, uint32_t node)
{
	uint64_t before = twin->parts[SIDE_A][node].total_ns, after = twin->parts[SIDE_B][node].total_ns;

	return before > after ? before : after;
}

static int find_least(uint64_t *least, const struct twin *twin)
{
	uint64_t *totals = malloc((size_t)twin->shape.count * sizeof(*totals));

	if (!totals)
		return -ENOMEM;
	for (uint32_t i = 0; i < twin->shape.count; i++)
		totals[i] = greater_total(twin, i);
	*least = paths_least(totals, twin->shape.count);
	free(totals);
	return 0;
}

/* The columns, and the places of what is written. */
struct putting {
	struct column *up, *name, *calls[SIDES], *total[SIDES], *self[SIDES];
	uint32_t *places;  /* per node: its place among those written, TREE_NONE = it is left out */
	uint32_t *numbers; /* per name of the pair: its place in the page's list + 1, 0 = not used */
};

static void add_columns(struct putting *putting, struct columns *columns)
{
	putting->up = columns_add(columns, "change.up");
	putting->name = columns_add(columns, "change.name");
	putting->calls[SIDE_A] = columns_add(columns, "change.calls_before");
	putting->calls[SIDE_B] = columns_add(columns, "change.calls_after");
	putting->total[SIDE_A] = columns_add(columns, "change.total_before");
	putting->total[SIDE_B] = columns_add(columns, "change.total_after");
	putting->self[SIDE_A] = columns_add(columns, "change.self_before");
	putting->self[SIDE_B] = columns_add(columns, "change.self_after");
}

static void put_node(struct difference *difference, struct putting *putting, const struct twin *twin, uint32_t node,
		     struct columns *columns)
{
	uint32_t name = twin->shape.nodes[node].function;

	if (!putting->numbers[name]) {
		difference->names[difference->name_count++] = name;
		putting->numbers[name] = difference->name_count;
	}
	columns_put(columns, putting->up, putting->places[node] - putting->places[twin->shape.nodes[node].parent]);
	columns_put(columns, putting->name, putting->numbers[name]);
	for (unsigned side = 0; side < SIDES; side++) {
		const struct twin_part *part = &twin->parts[side][node];

		columns_put(columns, putting->calls[side], part->calls + part->unfinished);
		columns_put(columns, putting->total[side], part->total_ns);
		columns_put(columns, putting->self[side], part->self_ns);
	}
}

/* A node comes behind its parent in the array. */
static void put_nodes(struct difference *difference, struct putting *putting, const struct twin *twin,
		      struct columns *columns)
{
	uint32_t places = 1;

	putting->places[TREE_ROOT] = 0;
	for (uint32_t i = 1; i < twin->shape.count; i++) {
		if (greater_total(twin, i) < difference->min_ns ||
		    putting->places[twin->shape.nodes[i].parent] == TREE_NONE) {
			putting->places[i] = TREE_NONE;
			difference->left++;
			continue;
		}
		putting->places[i] = places++;
		put_node(difference, putting, twin, i, columns);
	}
}

int difference_put(struct difference *difference, const struct diff *diff, struct columns *columns)
{
	const uint32_t names = pair_count(diff->pair), nodes = diff->twin.shape.count;
	struct putting putting = {.up = NULL};
	int err;

	*difference = (struct difference){0};
	if (!nodes)
		return 0;
	err = find_least(&difference->min_ns, &diff->twin);
	add_columns(&putting, columns);
	putting.places = malloc((size_t)nodes * sizeof(*putting.places));
	putting.numbers = calloc((size_t)names + 1, sizeof(*putting.numbers));
	difference->names = calloc((size_t)names + 1, sizeof(*difference->names));
	if (!putting.places || !putting.numbers || !difference->names)
		err = -ENOMEM;
	if (!err)
		put_nodes(difference, &putting, &diff->twin, columns);
	free(putting.places);
	free(putting.numbers);
	return err;
}

void difference_write(const struct difference *difference, const struct diff *diff, struct json *json)
{
	char name[NAME_MAX];

	json_object(json);
	json_key(json, "names");
	json_array(json);
	for (uint32_t i = 0; i < difference->name_count; i++) {
		texts_cut(name, sizeof(name), pair_raw(diff->pair, difference->names[i]));
		json_string(json, name);
	}
	json_array_end(json);
	json_key_u64(json, "left", difference->left);
	json_key_u64(json, "min_ns", difference->min_ns);
	json_key_u64(json, "absorbed", diff->sides[SIDE_A].absorbed + diff->sides[SIDE_B].absorbed);
	json_key_u64(json, "strays", diff->sides[SIDE_A].strays + diff->sides[SIDE_B].strays);
	json_object_end(json);
}

void difference_clear(struct difference *difference)
{
	free(difference->names);
	*difference = (struct difference){0};
}
