/*
 * Counting by key, and arrays of values, in a map that others write to, too (abi/maps.h).  doc/design/maps.md has the
 * argument.
 *
 * Context: probe, at any instruction of the program's.  No lock, no call, no memory of its own; each call takes a
 * bounded number of steps, whatever the map holds.
 */
#ifndef PROBE_MAPS_H
#define PROBE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/maps.h>

/* The number of a stack's frame (abi/maps.h), which is in the map from now on; 0: it has no room. */
uint32_t map_frame(struct calltap_map *map, const struct calltap_map_frame *frame);
/* Count one for the key, whose last word has zeros behind its size; lane: any number, best one of the thread's own. */
void map_count(struct calltap_map *map, const uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t size, uint32_t lane);
/* 1 + the place of the key's slot, which is there from now on; 0: it has no room, and the call is one of the others. */
uint32_t map_find(struct calltap_map *map, const uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t size);
/* As map_count() in a map of the newest keys, in which all count so; newest.c. */
void map_count_newest(struct calltap_map *map, const uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t size, uint32_t lane);
/*
 * The address of the lane's value at the index of the array with that number (enum calltap_map_number); NULL: there is
 * none.  What it holds may change at any time.
 */
void *map_lookup(struct calltap_map *map, uint32_t number, uint32_t index, uint32_t lane);
/* spans.c.  A span with the key begins: it has the value until it ends.  False: there is no room, which is counted. */
bool map_begin(struct calltap_map *map, const uint64_t key[2], uint64_t value);
/* It ends: *value is what it began with.  False: there is none, which is counted, and *value is 0. */
bool map_end(struct calltap_map *map, const uint64_t key[2], uint64_t *value);

#endif
