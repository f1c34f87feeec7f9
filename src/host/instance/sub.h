/*
 * Sub-buffers as their readers in a living session find them: whole, or being written.
 *
 * Everything in a ring is the target's to scribble on: what is read is read once.  Callers: drain.c, peek.c.  Context:
 * host.
 */
#ifndef HOST_INSTANCE_SUB_H
#define HOST_INSTANCE_SUB_H

#include <stdbool.h>
#include <stdint.h>

#include "instance.h"

static inline struct calltap_subbuf *sub_of(const struct target_arena *arena, uint32_t index, uint64_t number)
{
	return (void *)((char *)ring_of(arena, index) + CALLTAP_PAGE + number % arena->sub_count * arena->sub_size);
}

/* A copy of what the target may be writing to: each word is read once, the number first. */
void sub_copy_head(struct calltap_subbuf *head, const struct calltap_subbuf *sub);
/*
 * Is what was read from the sub-buffer whole?  Its writer may overwrite it at any time in overwrite mode, and takes the
 * number away before it does.
 */
bool sub_is_whole(const struct calltap_subbuf *sub, uint64_t number);
/* The end of the whole records from `from` on, up to the first slot that is taken and not written yet. */
uint32_t sub_whole_records(const uint64_t *words, uint32_t from, uint32_t count);

#endif
