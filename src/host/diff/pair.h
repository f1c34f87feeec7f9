/*
 * The names of several traces as one table: functions of the same name are the same, whatever their ids and addresses.
 *
 * Callers: diff.c, twin.c, slow.c.  Context: host.  Names are those that the tracer shows, so neither ASLR nor a new
 * build matters.
 */
#ifndef HOST_DIFF_PAIR_H
#define HOST_DIFF_PAIR_H

#include <calltap/diag.h>

#include "../trace/trace.h"

enum { SIDE_A, SIDE_B, SIDES };

struct pair;

/* The traces stay the caller's; the same one may be there twice. */
int pair_create(struct pair **out, const struct trace *const *traces, unsigned count)
	__attribute__((warn_unused_result));
void pair_destroy(struct pair *pair);
/* The number of a function's name, from 0 on; at: which of the traces the function is of.  0 or -ENOMEM. */
int pair_name(uint32_t *name, struct pair *pair, unsigned at, uint32_t function) __attribute__((warn_unused_result));
uint32_t pair_count(const struct pair *pair);
/* A name as it may be printed, and as the trace has it. */
const char *pair_text(const struct pair *pair, uint32_t name);
const char *pair_raw(const struct pair *pair, uint32_t name);

#endif
