/*
 * Where a program keeps the frames of signals on stacks that none of its
 * threads runs on (impl.h): a handler may change to another stack and leave
 * what it has interrupted for later, as schedulers of coroutines do that take
 * the processor away.
 *
 * No thread leads to such memory, so it is looked for before the stop, in all
 * that the program has written to; in the stop, around the places that were
 * found.  A program without such a scheduler has none.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "impl.h"

#define READ_SIZE   (256u << 10)
#define READ_PAGES  (READ_SIZE / PAGE)
#define AROUND	    (64u << 10)	 /* so far from a frame there may be another one when the threads are stopped */
#define AREAS_SIZE  (512u << 20) /* of all areas; most are threads' stacks, which a stop passes over */
#define TIME_MAX_NS 300000000u	 /* for the look before it */
#define IN_MEMORY   (3ull << 62) /* in an entry of /proc/PID/pagemap: present, or swapped out */

struct search {
	struct attach_ahead *ahead;
	pid_t alive;
	int pagemap; /* -1: all pages are read */
	uint64_t until_ns, size;
	uint64_t words[READ_SIZE / 8];
};

/* Signals whose handlers interrupt a program anywhere: not those that an instruction of its own raises, nor libc's. */
static bool is_interrupted(pid_t pid)
{
	static const int others[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, 32, 33};
	unsigned long long caught;
	char value[64];

	if (proc_status(pid, "SigCgt", value, sizeof(value)))
		return true;
	caught = strtoull(value, NULL, 16);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		caught &= ~(1ull << (others[i] - 1));
	return caught != 0;
}

static int add_area(struct search *search, const struct map *map, uint64_t address)
{
	struct attach_ahead *ahead = search->ahead;
	struct attach_range *last = ahead->area_count ? &ahead->areas[ahead->area_count - 1] : NULL, *more;
	uint64_t lo = address - map->lo > AROUND ? address - AROUND : map->lo;
	uint64_t hi = map->hi - address > AROUND ? address + AROUND : map->hi;

	lo &= ~(uint64_t)(PAGE - 1);
	hi = (hi + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (last && lo <= last->hi) {
		search->size += hi - last->hi;
		last->hi = hi;
		return 0;
	}
	more = reallocarray(ahead->areas, ahead->area_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	ahead->areas = more;
	more[ahead->area_count++] = (struct attach_range){lo, hi};
	search->size += hi - lo;
	return 0;
}

static int search_words(struct search *search, const struct map *map, uint64_t lo, size_t count)
{
	size_t end = count > NATIVE_SAVED_AFTER ? count - NATIVE_SAVED_AFTER : 0;
	int ret = 0;

	for (size_t i = 0; !ret && (i = native_find_saved(search->words, i, end)) < end; i++) {
		const struct map *code = space_find(&search->ahead->space, search->words[i]);

		if (code && code->bits & MAP_EXEC)
			ret = add_area(search, map, lo + i * 8);
	}
	return ret;
}

/* A run of pages that are there.  A frame across two reads is found by its neighbours, or not at all. */
static int search_run(struct search *search, const struct map *map, uint64_t lo, uint64_t hi)
{
	if (memory_read(search->alive, lo, search->words, hi - lo))
		return 0;
	return search_words(search, map, lo, (hi - lo) / 8);
}

static int search_some(struct search *search, const struct map *map, uint64_t lo, uint64_t hi)
{
	uint64_t entries[READ_PAGES], pages = (hi - lo) / PAGE;
	ssize_t size = (ssize_t)(pages * sizeof(entries[0]));
	int ret = 0;

	if (search->pagemap < 0 ||
	    pread(search->pagemap, entries, (size_t)size, (off_t)(lo / PAGE * sizeof(entries[0]))) != size)
		return search_run(search, map, lo, hi);
	for (uint64_t i = 0, end; i < pages && !ret; i = end) {
		for (end = i; end < pages && entries[end] & IN_MEMORY; end++)
			;
		if (end > i)
			ret = search_run(search, map, lo + i * PAGE, lo + end * PAGE);
		else
			end++;
	}
	return ret;
}

static bool is_over(const struct search *search)
{
	return search->size >= AREAS_SIZE || now_ns() > search->until_ns;
}

static int search_all(struct search *search)
{
	const struct space *space = &search->ahead->space;
	int ret = 0;

	for (size_t i = 0; i < space->count && !ret; i++) {
		const struct map *map = &space->maps[i];

		if ((map->bits & (MAP_READ | MAP_WRITE | MAP_PUBLIC)) != (MAP_READ | MAP_WRITE))
			continue;
		for (uint64_t at = map->lo; at < map->hi && !ret && !is_over(search); at += READ_SIZE)
			ret = search_some(search, map, at, map->hi - at > READ_SIZE ? at + READ_SIZE : map->hi);
	}
	return ret;
}

int elsewhere_find(struct attach_ahead *ahead, pid_t alive)
{
	struct search *search;
	char path[64];
	int ret;

	if (!is_interrupted(alive))
		return 0;
	search = calloc(1, sizeof(*search));
	if (!search)
		return -ENOMEM;
	search->ahead = ahead;
	search->alive = alive;
	search->until_ns = now_ns() + TIME_MAX_NS;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)alive);
	search->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	ret = search_all(search);
	if (search->pagemap >= 0)
		close(search->pagemap);
	free(search);
	return ret;
}
