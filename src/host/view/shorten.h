/*
 * Names of functions that fit into a column.  Context: host; tables on a
 * terminal.
 */
#ifndef HOST_VIEW_SHORTEN_H
#define HOST_VIEW_SHORTEN_H

#include <stddef.h>

#define SHORTEN_MAX 1024 /* bytes of a shortened name with its NUL */

/*
 * name itself where it has at most width characters, else a shorter one in
 * text: "ns::Class<int>::method(char const*)" without what is between the
 * parentheses, then without what is between the angle brackets, too, and if
 * that is not enough, without its middle.  width is 8 at least and 250 at most,
 * or counts as if it was.
 */
const char *shorten(const char *name, unsigned width, char text[SHORTEN_MAX]);

#endif
