/*
 * Which rows are on a stack now, and how often: tells the outermost
 * instance of a recursive function from those inside of it.
 *
 * Context: host; report.c.  A hash table of (stack, row) with a count each;
 * its size follows the number of open calls, not the length of the trace.
 */
#ifndef HOST_VIEW_ACTIVE_H
#define HOST_VIEW_ACTIVE_H

#include <stdint.h>

struct active_slot {
	uint64_t key;	/* stack << 32 | row */
	uint32_t count; /* 0 = free */
};

struct active {
	struct active_slot *slots;
	uint32_t bits; /* the table has 1 << bits slots; 0 = none yet */
	uint32_t used;
};

/* One more; *count is how many there are now. */
int active_enter(struct active *active, uint32_t stack, uint32_t row, uint32_t *count)
	__attribute__((warn_unused_result));
/* One less; returns how many are left. */
uint32_t active_leave(struct active *active, uint32_t stack, uint32_t row);
void active_clear(struct active *active);

#endif
