/*
 * Spans: keys that come with a value, and go (maps.h).  Context: probe.
 *
 * A slot's state changes by an exchange that fails if anybody else has changed it since it was looked at, and it has
 * another number each time.  So who has found a key there, and empties the slot by such an exchange, has read the value
 * of that key, and nobody else gets it.  Who fills a slot owns it from the exchange that claims it to the store that
 * makes it ready.  Both look at all slots that a key may be in: a key that has two, since two threads gave it a value
 * at one moment, has none after its next end.
 */
#include <stdbool.h>
#include <stddef.h>

#include <probe/keys.h>
#include <probe/maps.h>

#define ROUNDS 4u /* for a slot that others take */
#define TRIES  4u /* for a key that others change */

#define STEP (CALLTAP_MAP_SPAN_KIND + 1u) /* the state's number goes up by one */

static uint64_t next_state(uint64_t state, enum calltap_map_span_state kind)
{
	return (state & ~(uint64_t)CALLTAP_MAP_SPAN_KIND) + STEP + kind;
}

static struct calltap_map_span *slot_at(struct calltap_map *map, uint64_t hash, uint32_t i)
{
	return &map->spans[(uint32_t)((hash >> 32) + i) % CALLTAP_MAP_SPAN_SLOTS];
}

/* What the slot holds may change meanwhile: then its state does, too. */
static bool holds(const struct calltap_map_span *slot, uint64_t state, const uint64_t key[2])
{
	return (state & CALLTAP_MAP_SPAN_KIND) == CALLTAP_MAP_SPAN_READY &&
	       __atomic_load_n(&slot->key[0], __ATOMIC_RELAXED) == key[0] &&
	       __atomic_load_n(&slot->key[1], __ATOMIC_RELAXED) == key[1];
}

/* Empty the slot if it has the key; *value: what it had.  *state: of the slot. */
static bool take(struct calltap_map_span *slot, const uint64_t key[2], uint64_t *value, uint64_t *state)
{
	*state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE); /* pairs with the release in fill() */
	for (uint32_t i = 0; i < TRIES && holds(slot, *state, key); i++) {
		uint64_t found = __atomic_load_n(&slot->value, __ATOMIC_RELAXED), empty;

		empty = calltap_map_span_emptied(*state);
		/*
		 * Release: key and value were read before.  Acquire, where it fails: pairs with fill() for the next
		 * look.
		 */
		if (__atomic_compare_exchange_n(&slot->state, state, empty, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE)) {
			*state = empty;
			*value = found;
			return true;
		}
	}
	return false;
}

/* Give an empty slot with that state to the key; false: it is somebody else's by now. */
static bool fill(struct calltap_map_span *slot, uint64_t state, const uint64_t key[2], uint64_t value)
{
	uint64_t claimed = next_state(state, CALLTAP_MAP_SPAN_CLAIMED);

	if (!__atomic_compare_exchange_n(&slot->state, &state, claimed, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	/* Who reads a word of this key finds the state changed: pairs with the release in take(). */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&slot->key[0], key[0], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->key[1], key[1], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->value, value, __ATOMIC_RELAXED);
	/* Who sees it ready sees key and value: pairs with the acquires in take(). */
	__atomic_store_n(&slot->state, next_state(claimed, CALLTAP_MAP_SPAN_READY), __ATOMIC_RELEASE);
	return true;
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

bool map_begin(struct calltap_map *map, const uint64_t key[2], uint64_t value)
{
	uint64_t hash = keys_hash(key, 2, 0), old, state, empty_state = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct calltap_map_span *empty = NULL;

		for (uint32_t i = 0; i < CALLTAP_MAP_SPAN_PROBES; i++) {
			struct calltap_map_span *slot = slot_at(map, hash, i);

			if (take(slot, key, &old, &state))
				count(&map->begun_again);
			if (empty || (state & CALLTAP_MAP_SPAN_KIND) != CALLTAP_MAP_SPAN_EMPTY)
				continue;
			empty = slot;
			empty_state = state;
		}
		if (!empty)
			break;
		if (fill(empty, empty_state, key, value))
			return true;
	}
	count(&map->roomless);
	return false;
}

bool map_end(struct calltap_map *map, const uint64_t key[2], uint64_t *value)
{
	uint64_t hash = keys_hash(key, 2, 0), state;
	bool found = false;

	*value = 0;
	for (uint32_t i = 0; i < CALLTAP_MAP_SPAN_PROBES; i++) {
		if (!take(slot_at(map, hash, i), key, value, &state))
			continue;
		if (found)
			count(&map->begun_again);
		found = true;
	}
	if (!found)
		count(&map->not_begun);
	return found;
}
