/*
 * The trace as text, the way the kernel's function_graph and function tracers
 * print theirs.
 *
 * Context: host; the replay verb.  replay.c puts events in order and joins the
 * entry and exit of leaf calls; replay_text.c prints lines.
 */
#ifndef HOST_VIEW_REPLAY_H
#define HOST_VIEW_REPLAY_H

#include "names.h"
#include "out.h"
#include "walk.h"

struct replay_options {
	size_t size;	 /* sizeof(struct replay_options) */
	uint32_t depth;	 /* levels to show, 0 = all */
	bool abstime;	 /* a column with seconds since the start */
	bool proc;	 /* a column with the process */
	bool source;	 /* append file:line */
	bool tail;	 /* the name after every closing brace */
	bool all_levels; /* a line for each call that was open when the trace began, not one for all of a thread */
	bool color;
	unsigned thread_width; /* columns of the thread at the least */
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
	/* LEAF, CLOSE, WAIT: ns; CALL: caller's address; LOST: records; BEFORE: levels; STACK: its number */
	uint64_t value;
	uint32_t thread;
	uint32_t function;
	uint32_t innermost; /* BEFORE: function is the outermost one */
	uint32_t depth;
	char *text;   /* MESSAGE: what it says, "NAME: " before it where it is no mark; free() when it is printed */
	uint8_t kind; /* enum replay_kind */
	uint8_t how;  /* enum call_end; LEAF and CLOSE */
	bool ready;   /* nothing to come can change it */
	bool timed;   /* value is a duration */
	bool before;  /* ENTER: open when the trace began */
	bool tail;    /* entered by a tail call */
	bool named;   /* CLOSE: the opening line was not shown, so name it */
};

struct replay_printer;

int replay_printer_create(struct replay_printer **out, const struct trace *trace, const struct replay_options *options,
			  struct out *to) __attribute__((warn_unused_result));
void replay_printer_destroy(struct replay_printer *printer);
void replay_print_heading(struct replay_printer *printer);
void replay_print_end(struct replay_printer *printer);
/* item, after a separator when the thread is another than before. */
void replay_print(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item);
/* A duration in the kernel's twelve columns: seven digits at most, " us", padding. */
void replay_print_duration(struct out *out, uint64_t ns);

/* The whole trace to out.  *walk tells of damage. */
int replay_run(const struct trace *trace, const struct view_filter *filter, const struct replay_options *options,
	       struct out *out, struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * The same in steps, of a trace that grows: feed it events, and now and then
 * have lines printed that wait for more to come.
 */
struct replay;
int replay_create(struct replay **out_replay, const struct trace *trace, const struct view_filter *filter,
		  const struct replay_options *options, struct out *out) __attribute__((warn_unused_result));
int replay_feed(struct replay *replay, const struct trace_event *event) __attribute__((warn_unused_result));
/* Calls that were entered before and are open print as opening braces, whatever comes. */
int replay_settle(struct replay *replay, uint64_t before_ticks) __attribute__((warn_unused_result));
/* The end: what is open ends, too. */
int replay_end(struct replay *replay) __attribute__((warn_unused_result));
void replay_destroy(struct replay *replay);

#endif
