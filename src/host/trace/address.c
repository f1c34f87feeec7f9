/*
 * From a run-time address of a process to its object and function.
 *
 * Context: host.  Maps may overlap over time (dlclose, then another library at the same place): the map that was seen
 * last before the time asked for wins.  A map without an object says that the library that lay there is gone.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

#define FORKS_MAX 64 /* generations over which a child inherits a map; ends the search in a forged ring of parents */

static int compare_maps(const void *left, const void *right)
{
	const struct calltap_file_map *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	return a->ticks < b->ticks ? -1 : a->ticks > b->ticks;
}

static int compare_functions(const void *left, const void *right, void *context)
{
	const struct trace *trace = context;
	const struct trace_function *a = TABLE_ITEM(trace->functions, struct trace_function, *(const uint32_t *)left);
	const struct trace_function *b = TABLE_ITEM(trace->functions, struct trace_function, *(const uint32_t *)right);

	if (a->object != b->object)
		return a->object < b->object ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

static int settle_maps(struct trace *trace)
{
	const struct calltap_file_map *map;

	if (!trace->maps.count)
		return 0;
	free(trace->map_reach);
	qsort(trace->maps.items, trace->maps.count, sizeof(struct calltap_file_map), compare_maps);
	trace->map_reach = calloc(trace->maps.count, sizeof(*trace->map_reach));
	if (!trace->map_reach)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->maps.count; i++) {
		map = TABLE_ITEM(trace->maps, struct calltap_file_map, i);
		trace->map_reach[i] = map->hi;
		if (i && map[-1].process == map->process && trace->map_reach[i - 1] > map->hi)
			trace->map_reach[i] = trace->map_reach[i - 1];
	}
	return 0;
}

int address_settle(struct trace *trace)
{
	uint32_t count = 0;
	int err = settle_maps(trace);

	if (err || !trace->functions.count)
		return err;
	free(trace->by_address);
	trace->by_address_count = 0;
	trace->by_address = calloc(trace->functions.count, sizeof(*trace->by_address));
	if (!trace->by_address)
		return -ENOMEM;
	for (uint32_t id = 0; id < trace->functions.count; id++)
		if (TABLE_ITEM(trace->functions, struct trace_function, id)->symbol)
			trace->by_address[count++] = id;
	qsort_r(trace->by_address, count, sizeof(*trace->by_address), compare_functions, trace);
	trace->by_address_count = count;
	return 0;
}

/* A map, and the ticks from..to - 1 for which it is the answer. */
struct found {
	const struct calltap_file_map *map;
	uint64_t from, to;
};

/*
 * Take the map if it is a better answer: the last one seen up to ticks, else the first one seen later, for a library
 * may run before the tool sees its map.
 */
static void consider_map(struct found *found, const struct calltap_file_map *map, uint64_t ticks)
{
	const struct calltap_file_map *best = found->map;

	if (map->ticks > ticks) {
		if (!best || (best->ticks > ticks && map->ticks < best->ticks))
			found->map = map;
		if (map->ticks < found->to)
			found->to = map->ticks;
	} else if (!best || best->ticks > ticks || map->ticks > best->ticks ||
		   (map->ticks == best->ticks && best->object == TRACE_NONE)) {
		found->map = map;
		found->from = map->ticks;
	}
}

/* The process's own map that holds address at that time, not its parent's; map NULL = it never had one. */
static struct found own_map(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks)
{
	struct found found = {NULL, 0, UINT64_MAX};
	uint32_t lo = 0, hi = trace->maps.count;

	while (lo < hi) { /* to the first map behind address */
		uint32_t mid = lo + (hi - lo) / 2;
		const struct calltap_file_map *map = TABLE_ITEM(trace->maps, struct calltap_file_map, mid);

		if (map->process < process || (map->process == process && map->lo <= address))
			lo = mid + 1;
		else
			hi = mid;
	}
	while (lo-- > 0) {
		const struct calltap_file_map *map = TABLE_ITEM(trace->maps, struct calltap_file_map, lo);

		if (map->process != process || trace->map_reach[lo] <= address)
			break;
		if (address < map->hi)
			consider_map(&found, map, ticks);
	}
	return found;
}

/* The map that holds address; a forked child without a map there has its parent's, as it was at the fork. */
static struct found find_map(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks)
{
	struct found found = {NULL, 0, UINT64_MAX};
	uint64_t asked = ticks;

	for (int i = 0; i < FORKS_MAX; i++) {
		const struct trace_process *about = trace_process(trace, process);

		found = own_map(trace, process, address, ticks);
		if (found.map || !about || about->start != CALLTAP_START_FORK)
			break;
		if (about->start_ticks && about->start_ticks < ticks)
			ticks = about->start_ticks;
		process = about->parent;
	}
	if (ticks < asked) { /* the answer was taken at the fork; all later times lead there, too */
		found.from = asked;
		found.to = UINT64_MAX;
	}
	return found;
}

static uint32_t find_function(const struct trace *trace, uint32_t object, uint64_t address)
{
	uint32_t lo = 0, hi = trace->by_address_count;
	const struct trace_function *function;

	while (lo < hi) { /* to the first function behind address */
		uint32_t mid = lo + (hi - lo) / 2;

		function = TABLE_ITEM(trace->functions, struct trace_function, trace->by_address[mid]);
		if (function->object < object || (function->object == object && function->address <= address))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return TRACE_NONE;
	function = TABLE_ITEM(trace->functions, struct trace_function, trace->by_address[lo - 1]);
	if (function->object != object || address - function->address >= (function->size ? function->size : 1))
		return TRACE_NONE;
	return trace->by_address[lo - 1];
}

uint32_t address_object(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks)
{
	const struct calltap_file_map *map = find_map(trace, process, address, ticks).map;

	return map && trace_object(trace, map->object) ? map->object : TRACE_NONE;
}

uint32_t address_in_object(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks,
			   uint64_t *offset, uint32_t *function)
{
	const struct calltap_file_map *map = find_map(trace, process, address, ticks).map;

	if (!map || !trace_object(trace, map->object))
		return TRACE_NONE;
	*offset = address - map->base;
	*function = find_function(trace, map->object, *offset);
	return map->object;
}

void trace_resolve(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks,
		   struct trace_resolved *resolved)
{
	struct found found = find_map(trace, process, address, ticks);

	resolved->function =
		found.map ? find_function(trace, found.map->object, address - found.map->base) : TRACE_NONE;
	resolved->from_ticks = found.from;
	resolved->to_ticks = found.to;
	resolved->maps = trace->maps.count;
}

bool trace_resolved_at(const struct trace *trace, const struct trace_resolved *resolved, uint64_t ticks)
{
	return resolved->maps == trace->maps.count && ticks >= resolved->from_ticks && ticks < resolved->to_ticks;
}

const struct calltap_file_map *trace_map(const struct trace *trace, uint32_t i)
{
	return i < trace->maps.count ? TABLE_ITEM(trace->maps, struct calltap_file_map, i) : NULL;
}

/* The process's own map of an object at that time; NULL: it has none. */
static const struct calltap_file_map *own_map_of(const struct trace *trace, uint32_t process, uint32_t object,
						 uint64_t address, uint64_t ticks)
{
	struct found found = {NULL, 0, UINT64_MAX};

	for (uint32_t i = 0; i < trace->maps.count; i++) {
		const struct calltap_file_map *map = TABLE_ITEM(trace->maps, struct calltap_file_map, i);

		if (map->process == process && map->object == object && map->base + address >= map->lo &&
		    map->base + address < map->hi)
			consider_map(&found, map, ticks);
	}
	return found.map;
}

void trace_place(const struct trace *trace, uint32_t process, uint32_t id, uint64_t ticks, struct trace_place *place)
{
	const struct trace_function *function = trace_function(trace, id);
	const struct calltap_file_map *map = NULL;

	*place = (struct trace_place){.process = process, .maps = trace->maps.count};
	for (int i = 0; function && !map && i < FORKS_MAX; i++) {
		const struct trace_process *about = trace_process(trace, process);

		map = own_map_of(trace, process, function->object, function->address, ticks);
		if (!about || about->start != CALLTAP_START_FORK)
			break;
		process = about->parent;
	}
	if (map)
		place->address = map->base + function->address;
}

bool trace_place_holds(const struct trace *trace, const struct trace_place *place, uint32_t process)
{
	return place->maps && place->maps == trace->maps.count && place->process == process;
}

void trace_describe_address(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks, char *text,
			    size_t size)
{
	const struct calltap_file_map *map = find_map(trace, process, address, ticks).map;
	const struct trace_object *object = map ? trace_object(trace, map->object) : NULL;
	const struct trace_function *function = NULL;
	uint64_t offset = address;
	const char *base;

	if (object) {
		offset -= map->base;
		function = trace_function(trace, find_function(trace, map->object, offset));
	}
	if (function && offset == function->address) {
		snprintf(text, size, "%s", function->name);
	} else if (function) {
		snprintf(text, size, "%s+0x%" PRIx64, function->name, offset - function->address);
	} else if (object) {
		base = strrchr(object->path, '/');
		snprintf(text, size, "%s+0x%" PRIx64, base ? base + 1 : object->path, offset);
	} else {
		snprintf(text, size, "0x%" PRIx64, address);
	}
}
