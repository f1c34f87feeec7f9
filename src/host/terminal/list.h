/*
 * A bar in a list of rows, the window around it, and the keys that move it.
 *
 * Callers: the views of `calltap tui`, the table of `calltap top`, and the screen of `calltap live`.  Context: host.
 */
#ifndef HOST_TERMINAL_LIST_H
#define HOST_TERMINAL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	size_t first; /* row at the top of the window */
	size_t bar;
	size_t page; /* rows of the window */
};

void list_move(struct list *list, size_t count, long by);
void list_go(struct list *list, size_t count, size_t row);
/* Move the bar by the keys of a list, and by the mouse's wheel; false: the key is another one. */
bool list_key(struct list *list, size_t count, int key);
/* Keep the bar in the list, and the window, of so many rows, around the bar. */
void list_place(struct list *list, size_t count, size_t page);

#endif
