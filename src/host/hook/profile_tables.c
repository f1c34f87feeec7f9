/*
 * Reading the tables of tracer `profile`; see profile_tables.h.
 *
 * The memory is sparse, and a look through the mapping at a part that is not
 * there would make it: so lseek() says first what there is.  Each word is read
 * once; sums of words that a target has scribbled on are wrong, no more.
 * Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <calltap/abi/profile.h>

#include "profile_tables.h"

#define FUNCTIONS_SPARE 16384u
#define FUNCTIONS_MAX	(1u << 22)
#define CALLERS		4096u
#define HISTOGRAMS_MAX	16384u

void profile_shape(struct instance *instance)
{
	struct profile_shape *shape = &instance->profile;
	uint64_t functions =
		instance->session->images.next_id + instance->session->images.next_id / 4 + (uint64_t)FUNCTIONS_SPARE;
	uint64_t pages;

	if (shape->functions)
		return;
	shape->functions = (uint32_t)(functions < FUNCTIONS_MAX ? functions : FUNCTIONS_MAX);
	shape->callers = CALLERS;
	shape->histograms = shape->functions < HISTOGRAMS_MAX ? shape->functions : HISTOGRAMS_MAX;
	pages = (calltap_profile_size(shape->functions, shape->callers, shape->histograms) + CALLTAP_PAGE - 1) /
		CALLTAP_PAGE;
	instance->sub_size = CALLTAP_PAGE;
	instance->sub_count = (uint32_t)pages;
}

static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED); /* pairs with the probe's plain stores */
}

/* A thread's table, which is a ring's data area. */
struct area {
	const struct calltap_ring *ring;
	char *data;
	int fd;
	off_t at; /* of data in fd */
	bool held;
};

/* The k-th ring of an arena; false: nobody has had it yet. */
static bool area_of(struct area *area, const struct target_arena *arena, uint32_t k)
{
	char *data = (char *)ring_of(arena, k) + CALLTAP_PAGE;

	area->ring = ring_of(arena, k);
	area->data = data;
	area->fd = arena->fd;
	area->at = (off_t)(data - (const char *)arena->arena);
	area->held = __atomic_load_n(&arena->arena->state[k], __ATOMIC_RELAXED) != CALLTAP_RING_FREE;
	return __atomic_load_n(&area->ring->owner, __ATOMIC_ACQUIRE) != 0;
}

/* The part of [*from, end) of the data area that begins with memory that is there; false: there is no more. */
static bool next_part(const struct area *area, uint64_t *from, uint64_t end, uint64_t *part_end)
{
	off_t start = lseek(area->fd, area->at + (off_t)*from, SEEK_DATA), hole;

	if (start < 0 || (uint64_t)(start - area->at) >= end)
		return false;
	hole = lseek(area->fd, start, SEEK_HOLE);
	if (start - area->at > (off_t)*from)
		*from = (uint64_t)(start - area->at);
	*part_end = hole > start && (uint64_t)(hole - area->at) < end ? (uint64_t)(hole - area->at) : end;
	return true;
}

static bool is_there(const struct area *area, uint64_t offset, uint64_t size)
{
	uint64_t from = offset, end;

	return next_part(area, &from, offset + size, &end) && from == offset && end == offset + size;
}

/* Make room for functions below count. */
static int make_room_for(struct profile_sums *sums, uint32_t count)
{
	uint32_t room = count < 64 ? 64 : count + count / 2;
	struct profile_sum *items;

	if (count <= sums->count)
		return 0;
	items = reallocarray(sums->items, room, sizeof(*items));
	if (!items)
		return -ENOMEM;
	memset(items + sums->count, 0, (room - sums->count) * sizeof(*items));
	sums->items = items;
	sums->count = room;
	return 0;
}

static int add_entry(struct profile_sums *sums, uint32_t id, const struct calltap_profile_entry *entry, bool held)
{
	uint64_t calls = load_word(&entry->calls), max = load_word(&entry->max);
	bool running = held && load_word(&entry->outer);
	struct profile_sum *sum;
	int ret;

	if (!calls && !running)
		return 0;
	ret = make_room_for(sums, id + 1);
	if (ret)
		return ret;
	sum = &sums->items[id];
	sum->calls += calls;
	sum->total += load_word(&entry->total);
	sum->self += load_word(&entry->self);
	sum->unwound += load_word(&entry->unwound);
	sum->running += running;
	if (max > sum->max)
		sum->max = max;
	return 0;
}

static int add_area(struct profile_sums *sums, const struct instance *instance, const struct area *area)
{
	const struct calltap_profile *head = (const void *)area->data;
	uint32_t functions = instance->session->images.next_id < instance->profile.functions
				     ? instance->session->images.next_id
				     : instance->profile.functions;
	const uint64_t size = sizeof(struct calltap_profile_entry);
	uint64_t end = calltap_profile_at_entry(functions), part_end;
	int ret = 0;

	sums->threads += area->held;
	if (!is_there(area, 0, sizeof(*head)))
		return 0;
	sums->beyond += load_word(&head->beyond);
	sums->vanished += load_word(&head->vanished);
	for (uint64_t from = 0; !ret && next_part(area, &from, end, &part_end); from = part_end) {
		uint64_t id = from < sizeof(*head) ? 0 : (from - sizeof(*head)) / size;

		for (; !ret && calltap_profile_at_entry((uint32_t)id) < part_end; id++)
			ret = add_entry(sums, (uint32_t)id,
					(const void *)(area->data + calltap_profile_at_entry((uint32_t)id)),
					area->held && !instance->session->ending.letting_go);
	}
	return ret;
}

int profile_add_share(struct profile_sums *sums, const struct share *share)
{
	struct area area;
	int ret = 0;

	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count && !ret; k++)
			if (area_of(&area, &share->arenas[i], k))
				ret = add_area(sums, share->instance, &area);
	return ret;
}

static int make_histogram(uint64_t **histogram)
{
	if (!*histogram)
		*histogram = calloc(CALLTAP_PROFILE_BUCKETS, sizeof(**histogram));
	return *histogram ? 0 : -ENOMEM;
}

/* Where the function's histogram lies in the table, 0 = nowhere. */
static uint64_t histogram_at(const struct instance *instance, const struct area *area, uint32_t function)
{
	const struct profile_shape *shape = &instance->profile;
	uint64_t first = calltap_profile_at_histogram(shape->functions, shape->callers, 0);
	uint64_t size = sizeof(struct calltap_profile_histogram);
	uint64_t entry = calltap_profile_at_entry(function), at;

	if (function >= shape->functions || !is_there(area, entry, sizeof(struct calltap_profile_entry)))
		return 0;
	at = load_word(&((const struct calltap_profile_entry *)(const void *)(area->data + entry))->histogram);
	if (at < first || at > first + (shape->histograms - 1) * size || (at - first) % size)
		return 0;
	return at > first ? at : 0; /* the first one is shared by those that found none left */
}

/* A part that the file does not have reads as 0. */
static void add_buckets(uint64_t *to, const struct area *area, uint64_t at)
{
	uint64_t pending = load_word(&((const struct calltap_profile *)(const void *)area->data)->pending);
	uint64_t end = at + sizeof(struct calltap_profile_histogram), from = at, part_end;

	for (; next_part(area, &from, end, &part_end); from = part_end)
		for (; from + sizeof(*to) <= part_end; from += sizeof(*to))
			to[(from - at) / sizeof(*to)] += load_word((const uint64_t *)(const void *)(area->data + from));
	if (pending >= at && pending < end) /* the thread's last call, which it has not written there yet */
		to[(pending - at) / sizeof(*to)]++;
}

int profile_add_histogram(uint64_t **histogram, const struct share *share, uint32_t function)
{
	struct area area;

	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++) {
			uint64_t at;

			if (!area_of(&area, &share->arenas[i], k))
				continue;
			at = histogram_at(share->instance, &area, function);
			if (!at)
				continue;
			if (make_histogram(histogram))
				return -ENOMEM;
			add_buckets(*histogram, &area, at);
		}
	return 0;
}

int profile_add_sums(struct profile_sums *sums, const struct profile_sums *more, bool histograms)
{
	int ret = make_room_for(sums, more->count);

	sums->beyond += more->beyond;
	sums->vanished += more->vanished;
	for (uint32_t id = 0; id < more->count && !ret; id++) {
		const struct profile_sum *from = &more->items[id];
		struct profile_sum *to = &sums->items[id];

		to->calls += from->calls;
		to->total += from->total;
		to->self += from->self;
		to->unwound += from->unwound;
		to->running += from->running;
		if (from->max > to->max)
			to->max = from->max;
		if (!histograms || !from->histogram)
			continue;
		ret = make_histogram(&to->histogram);
		for (uint32_t bucket = 0; bucket < CALLTAP_PROFILE_BUCKETS && !ret; bucket++)
			to->histogram[bucket] += from->histogram[bucket];
	}
	return ret;
}

void profile_sums_clear(struct profile_sums *sums)
{
	for (uint32_t id = 0; id < sums->count; id++)
		free(sums->items[id].histogram);
	free(sums->items);
	memset(sums, 0, sizeof(*sums));
}

int profile_keep(struct share *share)
{
	struct profile_sums *kept = &share->instance->profile_ended;
	uint32_t threads = kept->threads;
	int ret = profile_add_share(kept, share);

	kept->threads = threads;
	for (uint32_t id = 0; id < kept->count && !ret; id++) {
		kept->items[id].running = 0;
		if (kept->items[id].calls)
			ret = profile_add_histogram(&kept->items[id].histogram, share, id);
	}
	return ret;
}

void profile_watch_in(const struct share *share, uint32_t function)
{
	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++) {
			struct calltap_profile_shape *shape = calltap_profile_shape(ring_of(&share->arenas[i], k));

			/* Relaxed: the probe compares it with what it has counted for so far. */
			if (__atomic_load_n(&shape->watch, __ATOMIC_RELAXED) != function + 1)
				__atomic_store_n(&shape->watch, function + 1, __ATOMIC_RELAXED);
		}
}

int profile_each_caller(const struct share *share, uint32_t function,
			int (*take)(void *ctx, const struct target *target, uint64_t address, uint64_t calls,
				    uint64_t total),
			void *ctx)
{
	const struct profile_shape *shape = &share->instance->profile;
	uint64_t end = calltap_profile_at_caller(shape->functions, shape->callers);
	struct area area;
	int ret = 0;

	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++) {
			const struct calltap_profile *head;
			uint64_t from = calltap_profile_at_caller(shape->functions, 0), part_end;

			if (!area_of(&area, &share->arenas[i], k) || !is_there(&area, 0, sizeof(*head)))
				continue;
			head = (const void *)area.data;
			if (__atomic_load_n(&head->watched, __ATOMIC_ACQUIRE) != function + 1)
				continue;
			for (; !ret && next_part(&area, &from, end, &part_end); from = part_end) {
				const struct calltap_profile_caller *caller = (const void *)(area.data + from);

				for (; !ret && (const char *)(caller + 1) <= area.data + part_end; caller++) {
					uint64_t address = load_word(&caller->address),
						 calls = load_word(&caller->calls);

					if (address && calls)
						ret = take(ctx, share->target, address, calls,
							   load_word(&caller->total));
				}
			}
		}
	return ret;
}
