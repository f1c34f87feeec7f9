/*
 * Names of the frames of a stack that calls were counted by (tallied.h).
 *
 * Caller: counted_calls.c.  Context: host; frames are untrusted.
 */
#ifndef HOST_VIEW_STACK_NAMES_H
#define HOST_VIEW_STACK_NAMES_H

#include <host/tallied.h>

struct trace;

/* Call `each` for the stack's frames, from the outermost one on.  Functions that nobody knows are "[object]". */
void stack_each_name(const struct tallies *tallies, const struct trace *trace, uint32_t stack,
		     void (*each)(void *ctx, const char *name), void *ctx);

#endif
