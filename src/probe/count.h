/*
 * Helpers COUNT, FIND, LOOKUP, UPDATE and DELETE of programs (abi/program.h).
 *
 * Context: probe, but where said.
 */
#ifndef PROBE_COUNT_H
#define PROBE_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/maps.h>

struct calltap_program_context;

uint64_t probe_help_count(struct calltap_program_context *context, const void *from, uint64_t size);
uint64_t probe_help_find(struct calltap_program_context *context, const void *from, uint64_t size);
uint64_t probe_help_lookup(uint64_t number, const void *index);
uint64_t probe_help_update(uint64_t number, const void *key, uint64_t size, uint64_t value);
uint64_t probe_help_delete(uint64_t number, const void *key, uint64_t size, void *to, uint64_t to_size);
/* The map, NULL = there is none, or not for this process. */
struct calltap_map *probe_counts(void);
/* Control side: count there from now on; NULL = nowhere.  flags: CALLTAP_COUNTS_* (abi/control.h); image: its id. */
void probe_counts_set(struct calltap_map *counts, uint32_t flags, uint64_t image);

#endif
