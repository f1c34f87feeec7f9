/*
 * Counts of the open calls per stack and row of the report: they tell the outermost call of a recursive function from
 * the calls inside of it.
 *
 * Caller: report.c.  Context: host.  The counts are in a hash table by (stack, row), whose size follows the number of
 * open calls, not the length of the trace.
 */
#ifndef HOST_VIEW_ACTIVE_H
#define HOST_VIEW_ACTIVE_H

#include <stdint.h>

struct active_bucket {
	uint64_t key;	/* stack << 32 | row */
	uint32_t count; /* 0 = free */
};

struct active {
	struct active_bucket *buckets;
	uint32_t bits; /* the table has 1 << bits buckets; 0 = none yet */
	uint32_t used;
};

/* Count one more open call; *count becomes the number of open calls. */
int active_enter(struct active *active, uint32_t stack, uint32_t row, uint32_t *count)
	__attribute__((warn_unused_result));
/* Count one open call less; returns the number of calls left. */
uint32_t active_leave(struct active *active, uint32_t stack, uint32_t row);
void active_clear(struct active *active);

#endif
