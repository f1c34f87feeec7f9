/*
 * Values that calls were made with, counted for slow calls and for others: which go with being slow?
 *
 * Caller: slow.c.  Context: host.  Memory is bounded: values beyond MET_MAX are not counted, and `beyond` says how
 * many there were.
 */
#ifndef HOST_DIFF_MET_H
#define HOST_DIFF_MET_H

#include "../trace/trace.h"
#include "pair.h"

#define MET_MAX	 16384u
#define MET_TEXT 80 /* bytes of a value; longer ones are cut, and those alike up to there are one */

struct met_value {
	uint64_t calls[SIDES];
	char text[MET_TEXT]; /* name=value */
};

struct met {
	struct met_value **values;
	uint32_t count;
	uint64_t events[SIDES]; /* calls whose values are told */
	uint64_t beyond;
	void *tree; /* of values, for tsearch() */
};

/* Count the values of a call's event; 0, or -ENOMEM. */
int met_add(struct met *met, unsigned side, const struct trace *trace, const struct trace_event *event)
	__attribute__((warn_unused_result));
/* Sort the values: those come first that calls of side B have most often, compared with side A.  Returns how many of
 * these are worth a line. */
uint32_t met_sort(struct met *met);
void met_clear(struct met *met);

#endif
