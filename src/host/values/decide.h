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
 * calltap_verdict.  The context is in r6, and r7 is kept.  result: for the return, else for the call; each decides what
 * it knows.
 */
void decide_compile(struct fetch *out, const struct condition *condition, uint32_t registers, int32_t otherwise,
		    bool result);
/* Put instructions that tell the tool of the number where the condition is true, and go on in any case. */
void decide_ask(struct fetch *out, const struct condition *condition, uint32_t registers, int32_t number, bool result);

#endif
