/*
 * Floating-point numbers as places in their order, by which conditions compare them: eBPF has integers alone.
 *
 * Callers: condition.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_REAL_H
#define HOST_VALUES_REAL_H

#include <stdbool.h>
#include <stdint.h>

/* The place of a floating-point number in their order, as a number; NaN lies beyond both ends. */
int64_t real_place(double value, uint32_t bits);
/* The greatest number of so many bits that is not above the value, or below: is less. -0 is below 0 in their order. */
int64_t real_place_up_to(double value, uint32_t bits, bool below);

#endif
