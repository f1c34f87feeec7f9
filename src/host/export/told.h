/*
 * Texts of calls' arguments and results, kept until the calls' slices are written.
 *
 * Callers: chrome.c, perfetto.c.  Context: host.  The upper bits of a frame's user word are the place here; bit 0 is
 * the exporter's.
 */
#ifndef HOST_EXPORT_TOLD_H
#define HOST_EXPORT_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "../view/walk.h"

struct told {
	char *arguments, *result; /* NULL = none */
};

struct told_table {
	struct told *list;
	uint32_t *free; /* places that are free, the next one last */
	uint32_t count, room, free_count;
};

#define TOLD_AT 1u /* the first bit of the place, + 1, in a frame's user word */

/* Keep the values of the innermost call.  False: they are of another function's, or no memory. */
bool told_keep(struct told_table *table, const struct walk *walk, uint32_t thread, const struct walk_message *message);
/* The values of a frame that ends: told_drop() frees the texts. */
struct told told_take(struct told_table *table, const struct call_frame *frame);
void told_drop(struct told *told);
void told_clear(struct told_table *table);

#endif
