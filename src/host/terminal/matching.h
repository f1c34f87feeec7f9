/*
 * A filter that a user types: a part of a name, or a glob.
 *
 * Callers: top.c, roll.c, the screen of `calltap live`, and the views of `calltap tui`.  Context: host.
 */
#ifndef HOST_TERMINAL_MATCHING_H
#define HOST_TERMINAL_MATCHING_H

#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

/* True if the filter, a glob if it has *, ? or [, lets the name pass; "" lets all pass. */
static inline bool matching_name(const char *filter, const char *name)
{
	if (!filter[0])
		return true;
	if (strpbrk(filter, "*?["))
		return fnmatch(filter, name, 0) == 0;
	return strstr(name, filter) != NULL;
}

#endif
