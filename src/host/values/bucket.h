/*
 * Counting numbers by ranges: a program counts in an array, at the index of the number's bucket (abi/maps.h).
 *
 * Callers: fetch.c, values.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_BUCKET_H
#define HOST_VALUES_BUCKET_H

#include <stdbool.h>
#include <host/tallied.h>

struct fetch;
struct spec;
struct spec_field;

/* Is the value a number that has buckets, and can be added up? */
bool bucket_suits(const struct spec_field *field);
/* Has the number a sign? */
bool bucket_has_sign(const struct spec_field *field);
/*
 * Put instructions that count the 64 bits of VALUE.  may_fault: FAULTS is 1 where there is no number, else 0; it is
 * lost.
 */
void bucket_put(struct fetch *out, const struct buckets *buckets, bool has_sign, bool may_fault);
/* What was counted so. */
void bucket_read(struct tallied_ranges *out, const struct calltap_map *map, const struct buckets *buckets);
/* The spec is of such a number from now on. */
void bucket_change(struct spec *spec, const struct buckets *buckets);

#endif
