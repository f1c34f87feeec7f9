/*
 * Stacks of a process that is traced (impl.h): a traced frame's slot holds the address of a stub, and the mirror the
 * return address that was there.
 *
 * Stub regions are anonymous, executable, and begin with an address in the agent.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

static bool in_agent(const struct space *space, uint64_t address)
{
	const struct map *map = space_find(space, address);

	return map && strstr(map->path, "libcalltap-agent");
}

static bool is_region(pid_t alive, const struct space *space, const struct map *map)
{
	uint64_t first;

	return map->bits & MAP_EXEC && !map->path[0] && !memory_read(alive, map->lo, &first, sizeof(first)) &&
	       in_agent(space, first);
}

int stubs_find(pid_t alive, const struct space *space, struct attach_range **regions, size_t *count)
{
	*regions = NULL;
	*count = 0;
	for (size_t i = 0; i < space->count; i++) {
		struct attach_range *more;

		if (!is_region(alive, space, &space->maps[i]))
			continue;
		more = reallocarray(*regions, *count + 1, sizeof(*more));
		if (!more) {
			free(*regions);
			return -ENOMEM;
		}
		*regions = more;
		more[(*count)++] = (struct attach_range){space->maps[i].lo, space->maps[i].hi};
	}
	return 0;
}

bool stubs_have(const struct attach_range *regions, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		if (value >= regions[i].lo && value < regions[i].hi)
			return true;
	return false;
}

uint64_t stubs_original(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address, uint64_t value)
{
	uint64_t original;

	if (!stubs_have(regions, count, value) ||
	    memory_read(alive, native_mirror_of(address), &original, sizeof(original)) || !original)
		return value;
	return original;
}

void stubs_replace(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address,
		   unsigned char *bytes, size_t size)
{
	for (size_t at = 0; count && at + 8 <= size; at += 8) {
		uint64_t value;

		memcpy(&value, bytes + at, sizeof(value));
		value = stubs_original(alive, regions, count, address + at, value);
		memcpy(bytes + at, &value, sizeof(value));
	}
}
