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

#define SAVED_NEAR (64u << 10)

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

bool stubs_end_leaf(pid_t alive, const struct attach_range *regions, size_t count, uint64_t value)
{
	unsigned char code[NATIVE_LEAF_CODE];
	uint64_t exit;

	if (!native_may_be_leaf_back(value) || !stubs_have(regions, count, value) ||
	    memory_read(alive, value, code, sizeof(code)))
		return false;
	exit = native_leaf_exit(value, code);
	return exit && stubs_have(regions, count, exit);
}

uint64_t stubs_sp(pid_t alive, const struct attach_range *regions, size_t count, uint64_t sp)
{
	uint64_t back;

	if (!count || sp % sizeof(back) || memory_read(alive, sp, &back, sizeof(back)) ||
	    !stubs_end_leaf(alive, regions, count, back))
		return sp;
	return sp + NATIVE_LEAF_BYTES;
}

int attach_mark_leaves(struct attach_stop *stop)
{
	struct attach_range *regions;
	size_t count;
	int ret = stubs_find(stop->alive, &stop->space, &regions, &count);

	if (ret)
		return ret;
	for (size_t i = 0; i < stop->context_count; i++) {
		struct attach_context *it = &stop->contexts[i];

		it->in_leaf = stubs_sp(stop->alive, regions, count, it->sp) != it->sp;
	}
	free(regions);
	return 0;
}

uint64_t stubs_original(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address, uint64_t value)
{
	uint64_t original;

	/* A stack pointer that a signal has saved lies above its frame, but not far. */
	if (value > address && value - address < SAVED_NEAR)
		return stubs_sp(alive, regions, count, value);
	if (!stubs_have(regions, count, value) || stubs_end_leaf(alive, regions, count, value) ||
	    memory_read(alive, native_mirror_of(address), &original, sizeof(original)) || !original)
		return value;
	return original;
}

void stubs_replace(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address,
		   unsigned char *bytes, size_t size)
{
	for (size_t at = 0; count && at + 8 <= size; at += 8) {
		uint64_t value, there = 0;

		memcpy(&value, bytes + at, sizeof(value));
		/* Most words that point into the stack point to no return address: that is seen without a system call.
		 */
		if (value > address + at && value - address <= size - sizeof(there)) {
			memcpy(&there, bytes + (value - address), sizeof(there));
			if (!native_may_be_leaf_back(there))
				continue;
		}
		value = stubs_original(alive, regions, count, address + at, value);
		memcpy(bytes + at, &value, sizeof(value));
	}
}
