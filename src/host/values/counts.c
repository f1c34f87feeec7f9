/*
 * Reading counts (counts.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "sum.h"

/* The key that the slot has with this state, as far as that stays: what it holds may change. */
static bool take_key(struct tallied *out, const struct calltap_map_slot *slot, uint64_t state)
{
	uint32_t size = (uint32_t)(state >> CALLTAP_MAP_SIZE_AT & 0xff);

	if ((state & CALLTAP_MAP_KIND) != CALLTAP_MAP_READY || size > CALLTAP_MAP_KEY)
		return false;
	*out = (struct tallied){.size = size};
	for (uint32_t i = 0; i < (size + 7) / 8; i++)
		out->key[i] = __atomic_load_n(&slot->key[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with the fence in the target's take() (probe/newest.c) */
	return __atomic_load_n(&slot->state, __ATOMIC_RELAXED) == state;
}

/* The keys that the slot has: 1, or 0, if there is none or junk. */
static int take(struct tallied *out, const struct calltap_map *map, uint32_t at, bool sums)
{
	/* Acquire: pairs with the target's release. */
	if (!take_key(out, &map->slots[at], __atomic_load_n(&map->slots[at].state, __ATOMIC_ACQUIRE)))
		return 0;
	for (uint32_t lane = 0; lane < CALLTAP_MAP_LANES; lane++)
		out->count = tallied_add(out->count, __atomic_load_n(&map->counts[lane][at], __ATOMIC_RELAXED));
	if (sums) { /* else nobody has touched that memory, and nobody is to */
		sum_read(&out->sum, map, at);
		out->count = tallied_add(out->count, tallied_add(out->sum.count, out->sum.numberless));
	}
	return 1;
}

/* As above, of a key that may give way to another one: counts of another generation are of the others. */
static int take_newest(struct tallied *out, const struct calltap_map *map, uint32_t at, uint64_t *others)
{
	uint64_t state = __atomic_load_n(&map->slots[at].state, __ATOMIC_ACQUIRE); /* with the target's release */
	bool has = take_key(out, &map->slots[at], state);

	for (uint32_t lane = 0; state && lane < CALLTAP_MAP_LANES; lane++) {
		uint64_t word = __atomic_load_n(&map->counts[lane][at], __ATOMIC_RELAXED);
		bool own = has && word >> CALLTAP_MAP_COUNT_GENERATION == calltap_map_generation(state);
		uint64_t *count = own ? &out->count : others;

		*count = tallied_add(*count, word & CALLTAP_MAP_COUNT_MOST);
	}
	return has;
}

/* Take a stack's frame, if the slot has one. */
static void take_frame(struct calltap_map_frame *out, const struct calltap_map_slot *slot)
{
	uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE),
		 words[2]; /* pairs with the target's release */

	if ((state & ~CALLTAP_MAP_HASH_BITS) != (CALLTAP_MAP_FRAME << CALLTAP_MAP_SIZE_AT | CALLTAP_MAP_READY))
		return;
	_Static_assert(sizeof(*out) == sizeof(words), "all of a frame");
	for (uint32_t i = 0; i < 2; i++)
		words[i] = __atomic_load_n(&slot->key[i], __ATOMIC_RELAXED);
	memcpy(out, words, sizeof(*out));
}

static int compare_keys(const void *a, const void *b)
{
	const struct tallied *left = a, *right = b;

	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return memcmp(left->key, right->key, sizeof(left->key));
}

static int compare_counts(const void *a, const void *b)
{
	const struct tallied *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return compare_keys(a, b);
}

/* Make one of those that have the same key, and leave out those of calls that have not ended. */
static size_t merge(struct tallied *list, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && !compare_keys(&list[kept - 1], &list[i])) {
			list[kept - 1].count = tallied_add(list[kept - 1].count, list[i].count);
			tallied_sum_merge(&list[kept - 1].sum, &list[i].sum);
		} else {
			list[kept++] = list[i];
		}
	}
	count = kept;
	kept = 0;
	for (size_t i = 0; i < count; i++)
		if (list[i].count)
			list[kept++] = list[i];
	return kept;
}

int counts_read(struct tallies *out, const struct calltap_map *map, enum counts_kind kind)
{
	struct tallied *all = calloc(CALLTAP_MAP_SLOTS, sizeof(*all));
	size_t used = 0;

	*out = (struct tallies){.list = all, .others = __atomic_load_n(&map->others, __ATOMIC_RELAXED)};
	out->frames = calloc(TALLIED_FRAMES, sizeof(*out->frames));
	if (!all || !out->frames)
		return -ENOMEM;
	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at++) {
		if (kind == COUNTS_NEWEST) {
			used += (size_t)take_newest(&all[used], map, at, &out->others);
			continue;
		}
		used += (size_t)take(&all[used], map, at, kind == COUNTS_SUMS);
		take_frame(&out->frames[at + 1], &map->slots[at]);
	}
	if (used)
		qsort(all, used, sizeof(*all), compare_keys);
	out->count = merge(all, used);
	if (out->count)
		qsort(all, out->count, sizeof(*all), compare_counts);
	return 0;
}

void counts_read_spans(struct tallied_spans *out, const struct calltap_map *map)
{
	*out = (struct tallied_spans){.not_begun = __atomic_load_n(&map->not_begun, __ATOMIC_RELAXED),
				      .begun_again = __atomic_load_n(&map->begun_again, __ATOMIC_RELAXED),
				      .roomless = __atomic_load_n(&map->roomless, __ATOMIC_RELAXED)};
	sum_read(&out->ticks, map, 0); /* where the programs of spans add up (fetch.c) */
	for (uint32_t at = 0; at < CALLTAP_MAP_SPAN_SLOTS; at++)
		out->open += (__atomic_load_n(&map->spans[at].state, __ATOMIC_RELAXED) & CALLTAP_MAP_SPAN_KIND) ==
			     CALLTAP_MAP_SPAN_READY;
}

uint64_t counts_end_spans(struct calltap_map *map, uint64_t process)
{
	uint64_t count = 0;

	for (uint32_t at = 0; at < CALLTAP_MAP_SPAN_SLOTS; at++) {
		struct calltap_map_span *slot = &map->spans[at];
		/* Pairs with the release in the target's fill(), as those of the target's take() do (probe/spans.c). */
		uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if ((state & CALLTAP_MAP_SPAN_KIND) == CALLTAP_MAP_SPAN_READY &&
		    __atomic_load_n(&slot->key[1], __ATOMIC_RELAXED) == process)
			count += __atomic_compare_exchange_n(&slot->state, &state, calltap_map_span_emptied(state),
							     false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
	return count;
}
