/*
 * Where the blocks of an object go in a process: a gap between its mappings, near the object (doc/design/stock.md).
 *
 * Gaps below the object come first: above an executable its heap grows.  Nothing is reserved: when the agent maps the
 * blocks something else may have come there, and another gap is looked for.  Caller: plan.c.  Context: host.
 */
#include <host/space.h>

#include "target.h"

#include "images.h"

#define PAGE	   4096ull
#define LOW_OBJECT (1ull << 31)	 /* an object below this is a position-dependent executable */
#define LOW_PLACE  0x60000000ull /* its blocks lie below this: above the heap's usual growth */
#define LOWEST	   0x10000ull	 /* Linux' mmap_min_addr */
#define MARGIN	   (64ull << 20) /* of the reach, for stubs that lie beside the blocks, at the most half of it */
#define GUARD	   (1ull << 20)	 /* below a mapping that may be a stack */

/* What is between a gap's end and the place, so that a try finds another place than the one before it. */
static uint64_t shift_of(const struct target_map *map)
{
	return map->moves * GUARD;
}

static bool overlaps(uint64_t lo, uint64_t hi, uint64_t other_lo, uint64_t other_hi)
{
	return lo < other_hi && other_lo < hi;
}

/* The lowest place that blocks which were sent already have in [lo, hi); hi = none. */
static uint64_t lowest_sent(const struct target *target, uint64_t lo, uint64_t hi)
{
	uint64_t lowest = hi;

	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *other = &target->maps[i];

		if (other->blocks && other->image &&
		    overlaps(lo, hi, other->blocks, other->blocks + other->image->layout.size) &&
		    other->blocks < lowest)
			lowest = other->blocks;
	}
	return lowest;
}

/* A place in the gap [lo, hi), as far up as may be; 0 = there is none. */
static uint64_t place_in(const struct target *target, const struct target_map *map, uint64_t lo, uint64_t hi)
{
	uint64_t size = (map->image->layout.size + PAGE - 1) & ~(PAGE - 1), shift = shift_of(map), at;

	if (hi < lo + shift + size)
		return 0;
	at = (hi - shift - size) & ~(PAGE - 1);
	for (uint64_t sent; at >= lo; at = (sent - size) & ~(PAGE - 1)) {
		sent = lowest_sent(target, at, at + size);
		if (sent == at + size)
			return at;
		if (sent < lo + size)
			break;
	}
	return 0;
}

struct bounds {
	uint64_t lo, hi; /* places that reach the whole object */
};

static struct bounds bounds_of(const struct target_map *map)
{
	uint64_t reach = object_reach(map->image->object), lo, hi;

	object_extent(map->image->object, &lo, &hi);
	lo += map->base;
	hi += map->base;
	reach -= MARGIN < reach / 2 ? MARGIN : reach / 2;
	return (struct bounds){hi > reach + LOWEST ? hi - reach : LOWEST, lo + reach};
}

uint64_t place_blocks_near(const struct target *target, const struct target_map *map, const struct space *space)
{
	struct bounds bounds = bounds_of(map);
	uint64_t lo, hi, top, found = 0;

	object_extent(map->image->object, &lo, &hi);
	top = map->base + lo < LOW_OBJECT && bounds.hi > LOW_PLACE ? LOW_PLACE : map->base + lo;
	/* The gap below each mapping, from the object's own downwards; then those above. */
	for (size_t i = space->count; i-- > 0 && !found;) {
		uint64_t end = space->maps[i].lo < top ? space->maps[i].lo : top;
		uint64_t begin = i ? space->maps[i - 1].hi : LOWEST;

		if (begin >= top)
			continue;
		found = place_in(target, map, begin > bounds.lo ? begin : bounds.lo, end);
	}
	for (size_t i = 1; i < space->count && !found; i++) {
		uint64_t begin = space->maps[i - 1].hi + GUARD, end = space->maps[i].lo;

		if (begin > top && end > begin + GUARD)
			found = place_in(target, map, begin, (end < bounds.hi ? end : bounds.hi) - GUARD);
	}
	return found;
}
