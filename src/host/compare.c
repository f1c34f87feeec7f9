/*
 * Comparing the text of a process with its files (compare.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/space.h>

#include "compare.h"
#include "text.h"

#define CHUNK (64u << 10)
#define TRIES 5u  /* of a comparison */
#define LOOKS 40u /* at bytes that differ, a millisecond apart */
#define PAGE  4096u

struct comparison {
	pid_t alive;
	int mem;
	uint8_t *there, *file; /* CHUNK each */
};

static struct compare_result compare_map(const struct comparison *comparison, int fd, const struct map *map)
{
	struct compare_result result = {0};

	for (uint64_t at = map->lo; at < map->hi; at += CHUNK) {
		size_t size = map->hi - at < CHUNK ? map->hi - at : CHUNK;
		ssize_t got = pread(comparison->mem, comparison->there, size, (off_t)at);
		ssize_t had = pread(fd, comparison->file, size, (off_t)(map->offset + (at - map->lo)));

		if (got < 0 || had < 0)
			break;
		got = got < had ? got : had; /* the last page ends behind the file */
		for (ssize_t i = 0; i < got; i++) {
			if (comparison->there[i] == comparison->file[i])
				continue;
			if (!result.differing++)
				result.first = map->offset + (at - map->lo) + (uint64_t)i;
		}
		result.verified += (uint64_t)got;
	}
	if (result.differing)
		text_clean(result.first_in, sizeof(result.first_in), text_base(map->path));
	return result;
}

static bool is_mapped(pid_t alive, const struct map *map)
{
	const struct map *now;
	struct space space;
	bool mapped = false;

	if (!space_read(&space, alive)) {
		now = space_find(&space, map->lo);
		mapped = now && now->lo == map->lo && now->hi == map->hi && now->inode == map->inode &&
			 now->major == map->major && now->minor == map->minor;
	}
	space_free(&space);
	return mapped;
}

/* The bytes at that offset of the file differ in each of some looks, and the same object is there all the time. */
static bool differs_for_good(const struct comparison *comparison, int fd, const struct map *map, uint64_t offset)
{
	const struct timespec pause = {0, 1000000};
	uint64_t in_map = (offset - map->offset) & ~(uint64_t)(PAGE - 1);
	struct map page = *map;

	page.lo = map->lo + in_map;
	page.hi = page.lo + PAGE;
	page.offset = map->offset + in_map;
	for (unsigned i = 0; i < LOOKS; i++) {
		nanosleep(&pause, NULL);
		if (!compare_map(comparison, fd, &page).differing || !is_mapped(comparison->alive, map))
			return false;
	}
	return true;
}

/*
 * The program runs: while it is looked at, another object may be at the place of one that comes and goes.  That one may
 * have gone again when the map is read, so a difference counts if it stays.
 */
static struct compare_result compare_until_sure(const struct comparison *comparison, int fd, const struct map *map)
{
	for (unsigned i = 0; i < TRIES; i++) {
		struct compare_result result = compare_map(comparison, fd, map);

		if (!result.differing || differs_for_good(comparison, fd, map, result.first))
			return result;
		if (!is_mapped(comparison->alive, map))
			break;
	}
	return (struct compare_result){0};
}

void compare_add(struct compare_result *all, const struct compare_result *more)
{
	if (!all->differing && more->differing) {
		all->first = more->first;
		memcpy(all->first_in, more->first_in, sizeof(all->first_in));
	}
	all->verified += more->verified;
	all->differing += more->differing;
}

struct compare_result compare_text(pid_t pid, bool (*wants)(const void *context, int fd), const void *context)
{
	struct comparison comparison = {.alive = proc_alive(pid), .mem = -1};
	struct compare_result all = {0};
	struct space space;
	char path[64];
	bool known = !space_read(&space, comparison.alive);

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)comparison.alive);
	comparison.mem = open(path, O_RDONLY | O_CLOEXEC);
	comparison.there = malloc(CHUNK);
	comparison.file = malloc(CHUNK);
	known = known && comparison.mem >= 0 && comparison.there && comparison.file;
	for (size_t i = 0; known && i < space.count; i++) {
		const struct map *map = &space.maps[i];
		struct compare_result one = {0};
		int fd = map->bits & MAP_EXEC ? space_open(comparison.alive, map) : -ENOENT;

		if (fd < 0)
			continue;
		if (!wants || wants(context, fd))
			one = compare_until_sure(&comparison, fd, map);
		close(fd);
		compare_add(&all, &one);
	}
	space_free(&space);
	free(comparison.there);
	free(comparison.file);
	if (comparison.mem >= 0)
		close(comparison.mem);
	return all;
}
