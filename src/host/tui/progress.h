/*
 * How far a pass over the trace is, for somebody who waits.
 *
 * Callers: tui.c and calls.c.  Context: host.
 */
#ifndef HOST_TUI_PROGRESS_H
#define HOST_TUI_PROGRESS_H

#include "../trace/trace.h"

struct progress {
	uint64_t calls;			/* about so many in the trace */
	unsigned from_percent, percent; /* where this pass begins in the whole work, and its share; 0: all of it */
	int (*tell)(void *ctx, unsigned percent); /* 0, or -ECANCELED: the pass is to stop; NULL = nobody waits */
	void *ctx;
	uint64_t seen; /* calls of this pass */
};

/* Take the number of calls from the trace's tables. */
void progress_of(struct progress *progress, const struct trace *trace);
/* Begin a pass that is so many percent of the work from there on. */
void progress_begin(struct progress *progress, unsigned from_percent, unsigned percent);
/* A call was read; 0, or -ECANCELED. */
int progress_step(struct progress *progress) __attribute__((warn_unused_result));

#endif
