/*
 * The trace as text, the way the kernel's function_graph and function tracers print theirs.
 *
 * Callers: the commands `replay` and `live`.  Context: host.  replay.c puts events in order and joins the entry and
 * exit of leaf calls; replay_text.c prints lines.
 */
#ifndef HOST_VIEW_REPLAY_H
#define HOST_VIEW_REPLAY_H

#include "names.h"
#include "out.h"
#include "replay_columns.h"
#include "walk.h"

struct replay_options {
	size_t size;	/* sizeof(struct replay_options) */
	uint32_t depth; /* levels to show, 0 = all */
	struct replay_columns columns;
	bool abstime;	 /* if no columns are chosen: a column with seconds since the start */
	bool proc;	 /* so for the process */
	bool source;	 /* append file:line */
	bool tail;	 /* the name after every closing brace */
	bool all_levels; /* a line for each call that was open when the trace began; false: one line per thread */
	bool color;
	unsigned thread_width; /* least width of the thread's column */
};

enum replay_kind {
	REPLAY_ENTER,
	REPLAY_LEAF,
	REPLAY_CLOSE,
	REPLAY_CALL,
	REPLAY_LOST,
	REPLAY_WAIT,
	REPLAY_BEFORE,
	REPLAY_STACK,
	REPLAY_MESSAGE
};

/* One line to come. */
struct replay_item {
	uint64_t ticks;
	/* LEAF, CLOSE, WAIT: ns; CALL: caller's address; LOST: records; BEFORE: levels; STACK: the stack's number */
	uint64_t value;
	uint64_t self_ns; /* LEAF, CLOSE: without what it calls, if `timed` */
	uint32_t thread;
	uint32_t function;
	uint32_t innermost; /* BEFORE: the innermost function; `function` is the outermost */
	uint32_t depth;
	/*
	 * MESSAGE: the event's text, after "NAME: " if it is no mark.  ENTER, LEAF, CLOSE: the call's arguments; NULL =
	 * not known.  Freed when the line is printed, as the result is.
	 */
	char *text;
	char *result;	/* LEAF, CLOSE: the call's result; NULL = not known */
	uint8_t kind;	/* enum replay_kind */
	uint8_t how;	/* enum call_end; LEAF and CLOSE */
	bool ready;	/* no later event can change the line */
	bool timed;	/* value is a duration */
	bool estimated; /* the duration is not exact */
	bool before;	/* ENTER: open when the trace began */
	bool tail;	/* entered by a tail call */
	bool named;	/* CLOSE: print the function's name, for there was no opening line */
};

struct replay_printer;

int replay_printer_create(struct replay_printer **out, const struct trace *trace, const struct replay_options *options,
			  struct out *to) __attribute__((warn_unused_result));
void replay_printer_destroy(struct replay_printer *printer);
void replay_print_heading(struct replay_printer *printer);
void replay_print_end(struct replay_printer *printer);
/* Print item, after a separator when the thread is another than before. */
void replay_print(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item);
/* Print a duration in the kernel's twelve columns: seven digits at most, " us", padding. */
void replay_print_duration(struct out *out, uint64_t ns);
/* Print seconds in five columns, and six decimals. */
void replay_print_seconds(struct out *out, uint64_t ns);

/* Print the whole trace to out.  *walk tells of damage. */
int replay_run(const struct trace *trace, const struct view_filter *filter, const struct replay_options *options,
	       struct out *out, struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Replay of a trace that grows, in steps: the caller feeds events, and calls replay_settle() now and then, so that no
 * line waits for long.
 */
struct replay;
int replay_create(struct replay **out_replay, const struct trace *trace, const struct view_filter *filter,
		  const struct replay_options *options, struct out *out) __attribute__((warn_unused_result));
int replay_feed(struct replay *replay, const struct trace_event *event) __attribute__((warn_unused_result));
/* Print waiting lines up to before_ticks: calls that are open print as opening braces. */
int replay_settle(struct replay *replay, uint64_t before_ticks) __attribute__((warn_unused_result));
/* End the replay: close all open calls. */
int replay_end(struct replay *replay) __attribute__((warn_unused_result));
void replay_destroy(struct replay *replay);

#endif
