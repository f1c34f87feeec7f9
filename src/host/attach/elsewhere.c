/*
 * Finding the frames of signals on stacks that none of the program's threads runs on (impl.h): a handler may change to
 * another stack and leave what it has interrupted for later, as schedulers of coroutines do that take the processor
 * away.
 *
 * No thread leads to such memory, so the tool looks for it before the stop, in all that the program has written to.
 * The program runs on until the stop, and may put such frames elsewhere.  So the stop looks at memory around the frames
 * that were found, memory that is new since, and memory that looks as if a stack had been there.  Context: host.
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
#define AROUND	    (64u << 10)	 /* from a frame: within this, another one may be in the stop */
#define AREAS_SIZE  (512u << 20) /* of all areas, and of all likely ones; most are threads' own stacks */
#define TIME_MAX_NS 300000000u	 /* CPU time for the look before the stop */
#define CODE_BITS   20u
#define NEW_PAGES   4096u	 /* asked for at once in a stop, */
#define NEW_NS	    500000u	 /* for so much of the processor's time: a gigabyte that is there takes 10 ms */
#define IN_MEMORY   (3ull << 62) /* in an entry of /proc/PID/pagemap: present, or swapped out */

struct search {
	struct attach_ahead *ahead;
	pid_t alive;
	int pagemap;	   /* -1 = not to be had: all pages are read */
	uint64_t until_ns; /* by work_ns() */
	uint64_t size, likely_size;
	uint64_t code[(1u << CODE_BITS) / 64]; /* bit per page number of code, modulo their count */
	uint64_t words[READ_SIZE / 8];
};

/* CPU time of the calling thread: a search that loses its CPU has no less time for that. */
static uint64_t work_ns(void)
{
	return now_of(CLOCK_THREAD_CPUTIME_ID);
}

/* By signals that come anywhere: not those that an instruction of the program's raises, nor libc's own. */
bool elsewhere_may_be(pid_t alive)
{
	static const int others[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, 32, 33};
	unsigned long long caught;
	char value[64];

	if (proc_status(alive, "SigCgt", value, sizeof(value)))
		return true;
	caught = strtoull(value, NULL, 16);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		caught &= ~(1ull << (others[i] - 1));
	return caught != 0;
}

static int open_pagemap(pid_t alive)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)alive);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Append a range, or let the last one grow.  *more: by how many bytes. */
static int add_range(struct ranges *ranges, uint64_t lo, uint64_t hi, uint64_t *more)
{
	struct attach_range *last = ranges->count ? &ranges->list[ranges->count - 1] : NULL, *list;

	if (last && lo <= last->hi) {
		*more = hi > last->hi ? hi - last->hi : 0;
		last->hi += *more;
		return 0;
	}
	if (!ranges->list || ranges->count == ranges->room) {
		size_t room = ranges->room ? 2 * ranges->room : 64;

		list = reallocarray(ranges->list, room, sizeof(*list));
		if (!list)
			return -ENOMEM;
		ranges->list = list;
		ranges->room = room;
	}
	ranges->list[ranges->count++] = (struct attach_range){lo, hi};
	*more = hi - lo;
	return 0;
}

/* Add whole pages of the mapping around an address. *size grows by what is new. */
static int add_around(struct ranges *ranges, uint64_t *size, const struct map *map, uint64_t address, uint64_t around)
{
	uint64_t lo = address - map->lo > around ? address - around : map->lo, more;
	uint64_t hi = map->hi - address > around ? address + around : map->hi;
	int ret = add_range(ranges, lo & ~(uint64_t)(PAGE - 1), (hi + PAGE - 1) & ~(uint64_t)(PAGE - 1), &more);

	*size += ret ? 0 : more;
	return ret;
}

/* True if the page is one of code, or shares its bit with one. */
static bool may_be_code(const struct search *search, uint64_t page)
{
	page &= (1u << CODE_BITS) - 1;
	return search->code[page / 64] >> page % 64 & 1;
}

static void note_code(struct search *search)
{
	const struct space *space = &search->ahead->space;

	for (size_t i = 0; i < space->count; i++) {
		const struct map *map = &space->maps[i];

		for (uint64_t page = map->lo / PAGE; map->bits & MAP_EXEC && page < map->hi / PAGE; page++)
			search->code[page % (1u << CODE_BITS) / 64] |= 1ull << page % 64;
	}
}

/* True if a page may be of a stack: it holds addresses of code, for return addresses stay there. */
static bool looks_like_stack(const struct search *search, const uint64_t *words)
{
	for (size_t i = 0; i < PAGE / sizeof(*words); i++)
		if (may_be_code(search, words[i] / PAGE))
			return true;
	return false;
}

static int search_pages(struct search *search, const struct map *map, uint64_t lo, size_t count)
{
	uint64_t more;
	int ret = add_range(&search->ahead->seen, lo, lo + count * PAGE, &more);

	for (size_t i = 0; !ret && i < count && search->likely_size < AREAS_SIZE; i++)
		if (looks_like_stack(search, search->words + i * (PAGE / sizeof(uint64_t))))
			ret = add_around(&search->ahead->likely, &search->likely_size, map, lo + i * PAGE + PAGE / 2,
					 PAGE);
	return ret;
}

static int search_words(struct search *search, const struct map *map, uint64_t lo, size_t count)
{
	size_t end = count > NATIVE_SAVED_AFTER ? count - NATIVE_SAVED_AFTER : 0;
	int ret = 0;

	for (size_t i = 0; !ret && (i = native_find_saved(search->words, i, end)) < end; i++) {
		const struct map *code = space_find(&search->ahead->space, search->words[i]);

		if (code && code->bits & MAP_EXEC)
			ret = add_around(&search->ahead->areas, &search->size, map, lo + i * 8, AROUND);
	}
	return ret;
}

/* Search pages that are in memory.  A frame across two reads is found by its neighbours, or not at all. */
static int search_run(struct search *search, const struct map *map, uint64_t lo, uint64_t hi)
{
	int ret;

	if (memory_read(search->alive, lo, search->words, hi - lo))
		return 0;
	ret = search_pages(search, map, lo, (hi - lo) / PAGE);
	return ret ? ret : search_words(search, map, lo, (hi - lo) / 8);
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
	return search->size >= AREAS_SIZE || work_ns() > search->until_ns;
}

/* True for memory that the program writes and shares with no other process. */
static bool is_private(const struct map *map)
{
	return (map->bits & (MAP_READ | MAP_WRITE | MAP_PUBLIC)) == (MAP_READ | MAP_WRITE);
}

static int search_all(struct search *search)
{
	const struct space *space = &search->ahead->space;
	int ret = 0;

	for (size_t i = 0; i < space->count && !ret; i++) {
		const struct map *map = &space->maps[i];

		if (!is_private(map))
			continue;
		for (uint64_t at = map->lo; at < map->hi && !ret && !is_over(search); at += READ_SIZE)
			ret = search_some(search, map, at, map->hi - at > READ_SIZE ? at + READ_SIZE : map->hi);
	}
	return ret;
}

int elsewhere_find(struct attach_ahead *ahead, pid_t alive)
{
	struct search *search;
	int ret;

	ahead->searched = elsewhere_may_be(alive);
	if (!ahead->searched)
		return 0;
	search = calloc(1, sizeof(*search));
	if (!search)
		return -ENOMEM;
	search->ahead = ahead;
	search->alive = alive;
	search->until_ns = work_ns() + TIME_MAX_NS;
	search->pagemap = open_pagemap(alive);
	note_code(search);
	ret = search_all(search);
	if (search->pagemap < 0 || is_over(search))
		ahead->seen.count = 0;
	if (search->pagemap >= 0)
		close(search->pagemap);
	free(search);
	return ret;
}

/* Add the pages of a part of a mapping that are in memory now, and were not before. */
static int find_new(const struct attach_ahead *ahead, int pagemap, const struct map *map, uint64_t lo,
		    struct ranges *found)
{
	uint64_t entries[NEW_PAGES], pages = (map->hi - lo) / PAGE, more;
	size_t size;
	int ret = 0;

	if (pages > NEW_PAGES)
		pages = NEW_PAGES;
	size = pages * sizeof(entries[0]);
	if (pread(pagemap, entries, size, (off_t)(lo / PAGE * sizeof(entries[0]))) != (ssize_t)size)
		return 0;
	for (uint64_t i = 0; !ret && i < pages; i++) {
		uint64_t at = lo + i * PAGE;

		if (entries[i] & IN_MEMORY && attach_range_find(ahead->seen.list, ahead->seen.count, at) == SIZE_MAX)
			ret = add_range(found, at - map->lo > PAGE ? at - PAGE : map->lo,
					map->hi - at > 2ull * PAGE ? at + 2ull * PAGE : map->hi, &more);
	}
	return ret;
}

int elsewhere_find_new(const struct attach_ahead *ahead, const struct attach_stop *stop, const struct ranges *owns,
		       struct ranges *found)
{
	uint64_t until_ns = work_ns() + NEW_NS;
	int pagemap, ret = 0;

	if (!ahead->seen.count)
		return 0;
	pagemap = open_pagemap(stop->alive);
	if (pagemap < 0)
		return 0;
	for (size_t i = 0; i < stop->space.count && !ret; i++) {
		const struct map *map = &stop->space.maps[i];

		if (!is_private(map) || attach_range_find(owns->list, owns->count, map->lo) != SIZE_MAX)
			continue;
		for (uint64_t at = map->lo; at < map->hi && !ret && work_ns() < until_ns;
		     at += (uint64_t)NEW_PAGES * PAGE)
			ret = find_new(ahead, pagemap, map, at, found);
	}
	close(pagemap);
	return ret;
}
