/*
 * Where a thread must not be when all that the agent has goes (attached.h).
 *
 * Called by the server thread, before the threads are stopped.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/space.h>

#include "attached.h"

#define TEXTS  8	   /* mappings of code of one name, at most */
#define WINDOW (32u << 10) /* around an address in an unwinder: libgcc's is 20 KiB of code */

static int add_place(struct attached_places *places, const struct attach_range *range, enum attached_place kind)
{
	struct attach_range *ranges = reallocarray(places->ranges, places->count + 1, sizeof(*ranges));
	enum attached_place *kinds = reallocarray(places->kinds, places->count + 1, sizeof(*kinds));
	size_t at = places->count;

	places->ranges = ranges ? ranges : places->ranges;
	places->kinds = kinds ? kinds : places->kinds;
	if (!ranges || !kinds)
		return -ENOMEM;
	for (; at && ranges[at - 1].lo > range->lo; at--) { /* sorted */
		ranges[at] = ranges[at - 1];
		kinds[at] = kinds[at - 1];
	}
	ranges[at] = *range;
	kinds[at] = kind;
	places->count++;
	return 0;
}

int attached_text_of(pid_t pid, const char *name, struct attach_range *ranges, size_t max)
{
	struct space space;
	size_t count = 0;

	if (space_read(&space, proc_alive(pid)))
		return 0;
	for (size_t i = 0; count < max && i < space.count; i++)
		if (space.maps[i].bits & MAP_EXEC && strstr(space.maps[i].path, name))
			ranges[count++] = (struct attach_range){space.maps[i].lo, space.maps[i].hi};
	space_free(&space);
	return (int)count;
}

uint64_t attached_agent_of(pid_t pid)
{
	struct attach_range range;

	return attached_text_of(pid, "libcalltap-agent", &range, 1) == 1 ? range.lo : 0;
}

static int add_texts(struct attached_places *places, const struct target *target, const char *name,
		     enum attached_place kind)
{
	struct attach_range ranges[TEXTS];
	int count = attached_text_of(target->pid, name, ranges, TEXTS), ret = 0;

	for (int i = 0; i < count && !ret; i++)
		ret = add_place(places, &ranges[i], kind);
	return ret;
}

bool attached_place_of(const struct attached_places *places, uint64_t address, enum attached_place *kind)
{
	size_t at = attach_range_find(places->ranges, places->count, address);

	if (at == SIZE_MAX)
		return false;
	*kind = places->kinds[at];
	return true;
}

int attached_open_memory(const struct target *target)
{
	char path[64];
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)proc_alive(target->pid));
	mem = open(path, O_RDONLY | O_CLOEXEC);
	return mem < 0 ? -ESRCH : mem;
}

/*
 * Regions of stubs, of this session or an earlier one that was killed: memory
 * of no file that is run, and that begins with the addresses of recorders.
 */
static int add_regions(struct attached_places *places, const struct target *target)
{
	enum attached_place kind;
	struct space space;
	pid_t alive = proc_alive(target->pid);
	int mem = attached_open_memory(target), ret;

	if (mem < 0)
		return mem;
	ret = space_read(&space, alive) ? -ESRCH : 0;
	for (size_t i = 0; !ret && i < space.count; i++) {
		const struct map *map = &space.maps[i];
		uint64_t first = 0;

		if (map->inode || map->path[0] || !(map->bits & MAP_EXEC) ||
		    pread(mem, &first, sizeof(first), (off_t)map->lo) != sizeof(first) ||
		    !attached_place_of(places, first, &kind) || kind != ATTACHED_IN_AGENT)
			continue;
		ret = add_place(places, &(struct attach_range){map->lo, map->hi}, ATTACHED_IN_STUBS);
	}
	space_free(&space);
	close(mem);
	return ret;
}

int attached_find_places(struct attached_places *places, const struct target *target)
{
	int ret = add_texts(places, target, "calltap-agent", ATTACHED_IN_AGENT);

	if (!ret)
		ret = add_regions(places, target);
	if (!ret)
		ret = add_texts(places, target, "/libgcc_s.so", ATTACHED_IN_UNWINDER);
	return ret ? ret : add_texts(places, target, "/libunwind", ATTACHED_IN_UNWINDER);
}

/* Add the parts of [lo, hi) that no known place covers. */
static int add_rest(struct attached_places *places, uint64_t lo, uint64_t hi)
{
	int ret = 0;

	for (size_t i = 0; i < places->count && lo < hi && !ret; i++) {
		const struct attach_range known = places->ranges[i];

		if (known.hi <= lo || known.lo >= hi)
			continue;
		if (known.lo > lo)
			ret = add_place(places, &(struct attach_range){lo, known.lo}, ATTACHED_NEAR_UNWINDER);
		lo = known.hi;
	}
	if (!ret && lo < hi)
		ret = add_place(places, &(struct attach_range){lo, hi}, ATTACHED_NEAR_UNWINDER);
	return ret;
}

int attached_add_unwinders(struct attached_places *places, const struct target *target,
			   const struct calltap_msg_unwinders_told *told)
{
	enum attached_place kind;
	struct space space;
	int ret = 0;

	for (uint32_t i = 0; i < told->count && i < CALLTAP_UNWINDERS_MAX && !ret; i++) {
		uint64_t address = told->addresses[i];
		const struct map *map;

		if (attached_place_of(places, address, &kind))
			continue; /* as in nearly all stops */
		if (space_read(&space, proc_alive(target->pid)))
			return -ESRCH;
		map = space_find(&space, address);
		if (map && map->bits & MAP_EXEC)
			ret = add_rest(places, address - map->lo > WINDOW ? address - WINDOW : map->lo,
				       map->hi - address > WINDOW ? address + WINDOW : map->hi);
		space_free(&space);
	}
	return ret;
}

void attached_places_free(struct attached_places *places)
{
	free(places->ranges);
	free(places->kinds);
}
