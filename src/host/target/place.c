/*
 * Where the blocks of an object go in a process: a gap between its mappings, near the object (doc/design/stock.md).
 *
 * Gaps below the object come first: above an executable its heap grows.  Nothing is reserved: when the agent maps the
 * blocks something else may have come there, and another gap is looked for.  That costs the making of all their bytes,
 * so places are chosen that nothing is likely to come to: in a wide gap, behind what the kernel gives to the next ones
 * who ask for memory, and clear of the stubs that belong to blocks which were sent (src/patch/sites.c maps them below
 * these).  Caller: plan.c.  Context: host.
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
#define WIDE	   (1ull << 30)	 /* a gap of which the top may be left to others */
#define STUBS_MORE (16ull << 10) /* what a region of stubs has beside them, and what lies between it and the blocks */

/* What is left free below a wide gap's end: the kernel maps there whatever the process asks for. */
static uint64_t free_top_of(const struct target_map *map)
{
	return object_reach(map->image->object) / 32;
}

/* What is between a gap's end and the place, so that a try finds another place than the one before it. */
static uint64_t shift_of(const struct target_map *map, bool wide)
{
	return map->moves * GUARD + (wide ? free_top_of(map) : 0);
}

static bool overlaps(uint64_t lo, uint64_t hi, uint64_t other_lo, uint64_t other_hi)
{
	return lo < other_hi && other_lo < hi;
}

/* Where what belongs to blocks that were sent begins: their stubs come to lie below them. */
static uint64_t sent_from(const struct target_map *map)
{
	uint64_t stubs = (map->image->variants[map->variant].stub_bytes + STUBS_MORE + PAGE - 1) & ~(PAGE - 1);

	return map->blocks > stubs ? map->blocks - stubs : 0;
}

/* The lowest place that blocks which were sent already have, with their stubs, in [lo, hi); hi = none. */
static uint64_t lowest_sent(const struct target *target, uint64_t lo, uint64_t hi)
{
	uint64_t lowest = hi;

	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *other = &target->maps[i];

		if (other->blocks && other->image &&
		    overlaps(lo, hi, sent_from(other), other->blocks + other->image->layout.size) &&
		    sent_from(other) < lowest)
			lowest = sent_from(other);
	}
	return lowest;
}

/* A place in the gap [lo, hi), as far up as may be; 0 = there is none. */
static uint64_t place_in(const struct target *target, const struct target_map *map, uint64_t lo, uint64_t hi, bool wide)
{
	uint64_t size = (map->image->layout.size + PAGE - 1) & ~(PAGE - 1), shift = shift_of(map, wide), at;

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

/* In the gap below each mapping, from the object's own downwards; wide: in those alone that are. */
static uint64_t place_below(const struct target *target, const struct target_map *map, const struct space *space,
			    uint64_t top, bool wide)
{
	struct bounds bounds = bounds_of(map);
	uint64_t found = 0;

	for (size_t i = space->count; i-- > 0 && !found;) {
		uint64_t end = space->maps[i].lo < top ? space->maps[i].lo : top;
		uint64_t begin = i ? space->maps[i - 1].hi : LOWEST;

		if (begin < top && (!wide || end - begin >= WIDE))
			found = place_in(target, map, begin > bounds.lo ? begin : bounds.lo, end, wide);
	}
	return found;
}

uint64_t place_blocks_near(const struct target *target, const struct target_map *map, const struct space *space)
{
	struct bounds bounds = bounds_of(map);
	uint64_t lo, hi, top, found = 0;
	bool low;

	object_extent(map->image->object, &lo, &hi);
	low = map->base + lo < LOW_OBJECT && bounds.hi > LOW_PLACE;
	top = low ? LOW_PLACE : map->base + lo;
	if (!low) /* where the kernel maps nothing by itself */
		found = place_below(target, map, space, top, true);
	if (!found)
		found = place_below(target, map, space, top, false);
	for (size_t i = 1; i < space->count && !found; i++) {
		uint64_t begin = space->maps[i - 1].hi + GUARD, end = space->maps[i].lo;

		if (begin > top && end > begin + GUARD)
			found = place_in(target, map, begin, (end < bounds.hi ? end : bounds.hi) - GUARD, false);
	}
	return found;
}
