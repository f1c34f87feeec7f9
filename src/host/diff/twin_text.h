/*
 * Printing two call trees as one.  Callers: diff_text.c, slow_text.c.  Context: host.
 */
#ifndef HOST_DIFF_TWIN_TEXT_H
#define HOST_DIFF_TWIN_TEXT_H

#include "../view/json.h"
#include "twin.h"

/* The headings: of the difference, and of each side's time and calls. */
struct twin_titles {
	const char *change, *time_a, *time_b, *calls_a, *calls_b;
};

/* Print a line per node; width: of the terminal, 0 = no limit.  Returns the number of lines. */
uint32_t twin_print(const struct twin *twin, const struct pair *pair, const struct twin_view *view,
		    const struct twin_titles *titles, unsigned width, bool color, struct out *out);
/* An array of the nodes that are shown, each after its parent; skipped ones are among them. */
void twin_json(const struct twin *twin, const struct pair *pair, const struct twin_view *view, struct json *json);

#endif
