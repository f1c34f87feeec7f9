/*
 * Counting open calls per stack and row; see active.h.  Context: host.
 *
 * Open addressing, linear probing, deletion by shifting back: no tombstones,
 * so the table stays fast over any number of calls.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "active.h"

static uint32_t home_of(const struct active *active, uint64_t key)
{
	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - active->bits));
}

static uint32_t find(const struct active *active, uint64_t key)
{
	uint32_t mask = (1u << active->bits) - 1;
	uint32_t at = home_of(active, key);

	while (active->buckets[at].count && active->buckets[at].key != key)
		at = (at + 1) & mask;
	return at;
}

static int grow(struct active *active)
{
	struct active larger = {.bits = active->bits ? active->bits + 1 : 8, .used = active->used};

	if (larger.bits > 31)
		return -ENOMEM;
	larger.buckets = calloc((size_t)1 << larger.bits, sizeof(*larger.buckets));
	if (!larger.buckets)
		return -ENOMEM;
	for (size_t i = 0; active->bits && i < (size_t)1 << active->bits; i++) {
		if (active->buckets[i].count)
			larger.buckets[find(&larger, active->buckets[i].key)] = active->buckets[i];
	}
	free(active->buckets);
	*active = larger;
	return 0;
}

int active_enter(struct active *active, uint32_t stack, uint32_t row, uint32_t *count)
{
	uint64_t key = (uint64_t)stack << 32 | row;
	struct active_bucket *bucket;

	if (!active->bits || active->used >= (1u << active->bits) / 2) {
		int err = grow(active);

		if (err)
			return err;
	}
	bucket = &active->buckets[find(active, key)];
	if (!bucket->count)
		active->used++;
	bucket->key = key;
	*count = ++bucket->count;
	return 0;
}

/* Free the bucket at hole, and move buckets up that a search would not find any more. */
static void empty_bucket(struct active *active, uint32_t hole)
{
	uint32_t mask = (1u << active->bits) - 1;

	for (uint32_t at = (hole + 1) & mask; active->buckets[at].count; at = (at + 1) & mask) {
		uint32_t home = home_of(active, active->buckets[at].key);

		if (((at - home) & mask) >= ((at - hole) & mask)) {
			active->buckets[hole] = active->buckets[at];
			hole = at;
		}
	}
	active->buckets[hole].count = 0;
	active->used--;
}

uint32_t active_leave(struct active *active, uint32_t stack, uint32_t row)
{
	uint32_t at;

	if (!active->bits)
		return 0;
	at = find(active, (uint64_t)stack << 32 | row);
	if (!active->buckets[at].count)
		return 0;
	if (--active->buckets[at].count)
		return active->buckets[at].count;
	empty_bucket(active, at);
	return 0;
}

void active_clear(struct active *active)
{
	free(active->buckets);
	memset(active, 0, sizeof(*active));
}
