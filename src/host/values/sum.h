/*
 * Adding up numbers by key: a program adds in an array, at the place of the key's slot (abi/maps.h).
 *
 * Callers: fetch.c, counts.c.  Context: host.  Pure, but for what the map holds.
 */
#ifndef HOST_VALUES_SUM_H
#define HOST_VALUES_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include <host/tallied.h>

struct fetch;

#define SUM_NUMBER BPF_REG_9 /* 1 + the place of the slot, as helper FIND gives it */

/* Put instructions that jump to the end where SUM_NUMBER is 0; returns the jump, for put_target(). */
uint32_t sum_put_test(struct fetch *out);
/*
 * Put instructions that add the 64 bits of VALUE to what SUM_NUMBER says, which is not 0.  may_fault: where FAULTS is
 * not 0 there is no number.
 */
void sum_put(struct fetch *out, bool has_sign, bool may_fault);
/* What was added up at a slot. */
void sum_read(struct tallied_sum *out, const struct calltap_map *map, uint32_t at);

#endif
