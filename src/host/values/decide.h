/*
 * Compiling a condition (condition.h) into the beginning of a program.
 *
 * Callers: fetch.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_DECIDE_H
#define HOST_VALUES_DECIDE_H

#include <stdint.h>

#include "condition.h"
#include "fetch.h"

/*
 * Put instructions behind which the program goes on if the condition is true; else it returns `otherwise`, an enum
 * calltap_verdict.  The context is in r6, and r7 is kept.
 */
void decide_compile(struct fetch *out, const struct condition *condition, uint32_t registers, int32_t otherwise);

#endif
