/*
 * Counting by key, and arrays (maps.h).  Context: probe.
 */
#include <stdbool.h>
#include <stddef.h>

#include <probe/keys.h>
#include <probe/maps.h>

#define NOWHERE CALLTAP_MAP_SLOTS

/* Take the slot if it is empty, which is so once; else *state is what it is. */
static bool take(struct calltap_map_slot *slot, uint64_t *state, uint64_t ready, const uint64_t *key, uint32_t words)
{
	*state = 0;
	if (!__atomic_compare_exchange_n(&slot->state, state, (uint64_t)CALLTAP_MAP_CLAIMED, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_ACQUIRE))
		return false;
	for (uint32_t i = 0; i < words; i++)
		__atomic_store_n(&slot->key[i], key[i], __ATOMIC_RELAXED);
	/* Who sees it ready sees the key: pairs with the acquire above, in find(), and with the tool's. */
	__atomic_store_n(&slot->state, ready, __ATOMIC_RELEASE);
	return true;
}

/* The place of a slot that has the key, or has it from now on; size: as the slot's state says it. */
static uint32_t find(struct calltap_map *map, const uint64_t *key, uint32_t words, uint32_t size)
{
	uint64_t hash = keys_hash(key, words, size);
	uint64_t ready = (hash & CALLTAP_MAP_HASH_BITS) | (uint64_t)size << CALLTAP_MAP_SIZE_AT | CALLTAP_MAP_READY;

	for (uint32_t i = 0; i < CALLTAP_MAP_PROBES; i++) {
		uint32_t at = (uint32_t)((hash >> 32) + i) % CALLTAP_MAP_SLOTS;
		struct calltap_map_slot *slot = &map->slots[at];
		uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if (!state && take(slot, &state, ready, key, words))
			return at;
		if (state == ready && keys_equal(slot, key, words))
			return at;
	}
	return NOWHERE;
}

uint32_t map_find(struct calltap_map *map, const uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t size)
{
	uint32_t at = size <= CALLTAP_MAP_KEY ? find(map, key, (size + 7) / 8, size) : NOWHERE;

	if (at != NOWHERE)
		return at + 1;
	__atomic_fetch_add(&map->others, 1, __ATOMIC_RELAXED);
	return 0;
}

void map_count(struct calltap_map *map, const uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t size, uint32_t lane)
{
	uint32_t number = map_find(map, key, size);

	if (number)
		__atomic_fetch_add(&map->counts[lane % CALLTAP_MAP_LANES][number - 1], 1, __ATOMIC_RELAXED);
}

uint32_t map_frame(struct calltap_map *map, const struct calltap_map_frame *frame)
{
	uint64_t key[sizeof(*frame) / sizeof(uint64_t)];
	uint32_t at;

	__builtin_memcpy(key, frame, sizeof(key));
	at = find(map, key, sizeof(key) / sizeof(key[0]), CALLTAP_MAP_FRAME);
	return at == NOWHERE ? 0 : at + 1;
}

void *map_lookup(struct calltap_map *map, uint32_t number, uint32_t index, uint32_t lane)
{
	lane %= CALLTAP_MAP_LANES;
	if (number == CALLTAP_MAP_RANGES && index < CALLTAP_MAP_RANGES_MAX)
		return &map->ranges[lane][index];
	if (number == CALLTAP_MAP_SUMS && index < CALLTAP_MAP_SLOTS)
		return &map->sums[lane][index];
	return NULL;
}
