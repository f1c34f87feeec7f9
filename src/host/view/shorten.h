/*
 * Names of functions that fit into a column.
 *
 * Callers: tables on a terminal (report_text.c, top_screen.c).  Context: host.
 */
#ifndef HOST_VIEW_SHORTEN_H
#define HOST_VIEW_SHORTEN_H

#include <stddef.h>

#define SHORTEN_MAX 1024 /* bytes of a shortened name with its NUL */

/*
 * name itself if it has at most width characters, else a shorter name in text.  "ns::Class<int>::method(char const*)"
 * loses the text between the parentheses, then that between the angle brackets, and if it is still too long, its
 * middle.  A width below 8 counts as 8, one above 250 as 250.
 */
const char *shorten(const char *name, unsigned width, char text[SHORTEN_MAX]);

#endif
