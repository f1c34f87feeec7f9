/*
 * The calls of one function themselves, and what happened inside of one of them.
 *
 * Caller: tui.c.  Context: host.  Each is a pass over the trace.  Memory is bounded: so many calls are kept, in the
 * order of their ends from one of them on, or the slowest; and so many lines of one call.
 */
#ifndef HOST_TUI_CALLS_H
#define HOST_TUI_CALLS_H

#include "../view/walk.h"
#include "progress.h"

#define CALLS_MAX	  (1u << 20) /* 48 MiB */
#define INSIDE_MAX	  (1u << 18) /* 10 MiB, and 32 MiB of values */
#define INSIDE_VALUES_MAX 120	     /* bytes of a call's arguments and result; longer ones are cut */

/* A call, with the times that `report` counts. */
struct calls_call {
	uint64_t enter_ticks;
	uint64_t start_ns; /* since the trace's start */
	uint64_t ns;
	uint64_t self_ns;
	uint32_t thread;
	uint32_t depth; /* open calls around it */
	uint8_t how;	/* enum call_end */
	bool estimated; /* its times are */
	bool begun;	/* false: its entry is not in the trace */
};

struct calls {
	uint32_t function;
	bool slowest; /* keep the slowest ones, slowest first; else those from number `first` on, in order of time */
	uint64_t first;
	struct calls_call *calls;
	size_t count, room;
	size_t room_max; /* CALLS_MAX, or less */
	uint64_t seen;	 /* all calls of the function */
};

/* Read the calls of calls->function; 0, or -errno, of which -ECANCELED has no diag. */
int calls_read(struct calls *calls, const struct trace *trace, const struct view_filter *filter,
	       struct progress *progress, struct walk *walk, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void calls_clear(struct calls *calls);

struct inside_line {
	uint32_t function;
	uint32_t depth;
	uint64_t start_ns;
	uint64_t ns;
	char *values; /* "(x=1) = 2"; NULL = none are told */
	bool ended;   /* ns is known */
	bool estimated;
};

/* A call: first the calls around it, then it, at `at`, and all that it called, in the order of their entries. */
struct inside {
	struct inside_line *lines;
	size_t count, room;
	size_t room_max; /* INSIDE_MAX, or less */
	size_t at;
	uint64_t beyond; /* calls in it that have no line */
};

int inside_read(struct inside *inside, const struct trace *trace, const struct view_filter *filter, uint32_t function,
		const struct calls_call *call, struct progress *progress, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void inside_clear(struct inside *inside);

#endif
