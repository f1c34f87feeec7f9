/*
 * Keys of a map (abi/maps.h): what maps.c and newest.c share.
 *
 * Context: probe.
 */
#ifndef PROBE_KEYS_H
#define PROBE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/maps.h>

static inline uint64_t keys_hash(const uint64_t *key, uint32_t words, uint32_t size)
{
	uint64_t hash = size;

	for (uint32_t i = 0; i < words; i++) {
		hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return hash;
}

/* What the slot holds may change meanwhile. */
static inline bool keys_equal(const struct calltap_map_slot *slot, const uint64_t *key, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		if (__atomic_load_n(&slot->key[i], __ATOMIC_RELAXED) != key[i])
			return false;
	return true;
}

#endif
