/*
 * Counting by the newest keys (maps.h).  Context: probe.
 *
 * A slot goes from key to key, each time with the next generation, which its state and its counts have.  Who takes a
 * slot claims it first, by an exchange that fails if anybody else has; then it exchanges each lane's count for 0 of the
 * next generation, writes the key, and makes the slot ready.  Who counts adds by an exchange that fails if the count is
 * of another generation than the state by which it has found the key.  So a call is counted once: for its key, or
 * for the others.
 */
#include <probe/keys.h>
#include <probe/maps.h>

#define ROUNDS 4u  /* to look for a key's slot, where others take it away */
#define TRIES  16u /* to add to a count that others add to */

struct key {
	const uint64_t *words;
	uint32_t count, size;
	uint64_t hash;
};

static uint64_t ready_state(const struct key *key, uint32_t generation)
{
	return (key->hash & CALLTAP_MAP_NEWEST_HASH_BITS) | (uint64_t)generation << CALLTAP_MAP_GENERATION_AT |
	       (uint64_t)key->size << CALLTAP_MAP_SIZE_AT | CALLTAP_MAP_READY;
}

static uint32_t place_of(const struct key *key, uint32_t i)
{
	return (uint32_t)((key->hash >> 32) + i) % CALLTAP_MAP_SLOTS;
}

/*
 * The slot has the key with this state, or is another key's by now: then its counts are of another generation, which
 * add() sees.
 */
static bool holds(const struct calltap_map_slot *slot, uint64_t state, const struct key *key)
{
	if (state != ready_state(key, calltap_map_generation(state)) || !keys_equal(slot, key->words, key->count))
		return false;
	/* Who has read a word of a later key sees the later generation of counts: pairs with the fence in take(). */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return true;
}

/* Note that the slot's key is in use. */
static void touch(struct calltap_map *map, uint32_t at)
{
	uint64_t now = __atomic_load_n(&map->taken, __ATOMIC_RELAXED);

	if (__atomic_load_n(&map->used[at], __ATOMIC_RELAXED) != now)
		__atomic_store_n(&map->used[at], now, __ATOMIC_RELAXED);
}

/*
 * Give the slot, which has the state, to the key.  False: it has another state by now.  Until it is ready nobody else
 * changes its key; counts of the generation before may come until their lane is exchanged, and are among the others.
 */
static bool take(struct calltap_map *map, uint32_t at, uint64_t state, const struct key *key)
{
	struct calltap_map_slot *slot = &map->slots[at];
	uint32_t generation = state ? (calltap_map_generation(state) + 1) & CALLTAP_MAP_GENERATIONS : 0;
	uint64_t claimed = (uint64_t)generation << CALLTAP_MAP_GENERATION_AT | CALLTAP_MAP_CLAIMED;

	if (!__atomic_compare_exchange_n(&slot->state, &state, claimed, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	for (uint32_t lane = 0; state && lane < CALLTAP_MAP_LANES; lane++) {
		uint64_t before = __atomic_exchange_n(
			&map->counts[lane][at], (uint64_t)generation << CALLTAP_MAP_COUNT_GENERATION, __ATOMIC_RELAXED);

		if (before & CALLTAP_MAP_COUNT_MOST)
			__atomic_fetch_add(&map->others, before & CALLTAP_MAP_COUNT_MOST, __ATOMIC_RELAXED);
	}
	/* Who reads a word of the key sees that the slot is claimed, and the counts: pairs with holds(), and the tool's
	 * take_key(). */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (uint32_t i = 0; i < key->count; i++)
		__atomic_store_n(&slot->key[i], key->words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&map->used[at], __atomic_add_fetch(&map->taken, 1, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	/* Who sees it ready sees the key and the counts: pairs with the acquire in find(), and with the tool's. */
	__atomic_store_n(&slot->state, ready_state(key, generation), __ATOMIC_RELEASE);
	return true;
}

/* The place of a slot that has the key, or has it from now on, and its generation; false: others were faster. */
static bool find(struct calltap_map *map, const struct key *key, uint32_t *at, uint32_t *generation)
{
	uint64_t oldest_state = 0, age = 0;
	uint32_t oldest = CALLTAP_MAP_SLOTS;

	for (uint32_t i = 0; i < CALLTAP_MAP_PROBES; i++) {
		uint64_t state, now;

		*at = place_of(key, i);
		state = __atomic_load_n(&map->slots[*at].state, __ATOMIC_ACQUIRE);
		*generation = state ? calltap_map_generation(state) : 0;
		if ((!state && take(map, *at, state, key)) || holds(&map->slots[*at], state, key)) {
			touch(map, *at);
			return true;
		}
		/* How many were taken since: the counter's turn is over after 2^64. */
		now = __atomic_load_n(&map->taken, __ATOMIC_RELAXED) -
		      __atomic_load_n(&map->used[*at], __ATOMIC_RELAXED);
		if ((state & CALLTAP_MAP_KIND) != CALLTAP_MAP_READY || (oldest != CALLTAP_MAP_SLOTS && now <= age))
			continue;
		oldest = *at;
		oldest_state = state;
		age = now;
	}
	if (oldest == CALLTAP_MAP_SLOTS || !take(map, oldest, oldest_state, key))
		return false;
	*at = oldest;
	*generation = (calltap_map_generation(oldest_state) + 1) & CALLTAP_MAP_GENERATIONS;
	return true;
}

/* Add one to a count of this generation; false: it is of another one, full, or others were always faster. */
static bool add(uint64_t *count, uint32_t generation)
{
	uint64_t now = __atomic_load_n(count, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < TRIES; i++) {
		if (now >> CALLTAP_MAP_COUNT_GENERATION != generation ||
		    (now & CALLTAP_MAP_COUNT_MOST) == CALLTAP_MAP_COUNT_MOST)
			return false;
		if (__atomic_compare_exchange_n(count, &now, now + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

void map_count_newest(struct calltap_map *map, const uint64_t words[CALLTAP_MAP_KEY_WORDS], uint32_t size,
		      uint32_t lane)
{
	const struct key key = {words, (size + 7) / 8, size,
				size <= CALLTAP_MAP_KEY ? keys_hash(words, (size + 7) / 8, size) : 0};
	uint32_t at, generation;

	for (uint32_t round = 0; size <= CALLTAP_MAP_KEY && round < ROUNDS; round++)
		if (find(map, &key, &at, &generation) && add(&map->counts[lane % CALLTAP_MAP_LANES][at], generation))
			return;
	__atomic_fetch_add(&map->others, 1, __ATOMIC_RELAXED);
}
