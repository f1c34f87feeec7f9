/*
 * Instructions that find the text of a class that stands for one (host/types/types.h).
 *
 * Callers: fetch.c, decide.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_VIEW_H
#define HOST_VALUES_VIEW_H

#include <stdint.h>

#include "emit.h"

#define VIEW_OF	  BPF_REG_9 /* the address of the class's object; 1: it is in registers */
#define VIEW_SIZE BPF_REG_3
#define VIEW_AT	  (WORD_AT - 24) /* the object's bytes, where they are in no event */
/* Of a list of texts: where it begins, its bytes, and whether the text at hand could not be read (0, or all ones). */
#define LIST_AT	    (VIEW_AT - 24)
#define LIST_BYTES  (LIST_AT + 8)
#define LIST_FAULTS (LIST_AT + 16)

/* What is put behind a call of helper READ, whose result is in r0, and for addresses that lead to addresses. */
struct view_ways {
	void (*check)(void *ctx);
	void (*read)(void *ctx, int32_t offset, uint32_t size); /* as put_fetch()'s */
	void *ctx;
};

/* Copy the object at the address VALUE to VIEW_AT; its address is in VIEW_OF then. */
void view_put_object(struct fetch *out, const struct spec_view *view, const struct view_ways *ways);
/* Find the text of an argument or a result: its address in VALUE, its size in VIEW_SIZE. */
void view_put(struct fetch *out, const struct spec_field *field, uint32_t registers, const struct view_ways *ways);
/* The same of an object whose bytes are in the frame, at r10 + at.  VIEW_OF is set. */
void view_put_at(struct fetch *out, const struct spec_view *view, int32_t at, const struct view_ways *ways);

#endif
