/*
 * A text that a user types in the last line: a filter, or what to search for.
 *
 * Callers: the views of `calltap tui`, `calltap top` and `calltap live --screen`.  Context: host.
 */
#ifndef HOST_TERMINAL_EDIT_H
#define HOST_TERMINAL_EDIT_H

#include <stddef.h>

enum edit_state {
	EDIT_GOES_ON,
	EDIT_TAKEN, /* Enter */
	EDIT_LEFT   /* Esc or ^C */
};

/* Put a key into the text, of size bytes with its end; keys that are no part of a text change nothing. */
enum edit_state edit_key(char *text, size_t size, int key);

#endif
