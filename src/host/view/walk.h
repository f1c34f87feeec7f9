/*
 * One filtered pass over a trace with its call stacks: the loop under every view and exporter.
 *
 * Context: host.  Events outside of the time window still change the stacks, so that depth and open calls are right
 * inside it; the consumer does not get them.
 */
#ifndef HOST_VIEW_WALK_H
#define HOST_VIEW_WALK_H

#include "../trace/callstack.h"
#include "../trace/trace.h"

struct chosen;	/* chosen.h */
struct headway; /* headway.h */

struct view_filter {
	struct headway *headway;     /* how far the passes are; NULL: nobody waits */
	unsigned pass, passes;	     /* which one of so many this is, from 0; passes 0: there is one */
	const struct chosen *chosen; /* functions that are taken as traced, and threads; NULL = all */
	uint32_t pid;		     /* 0 = all */
	uint32_t tid;		     /* 0 = all */
	uint32_t thread;	     /* index + 1, 0 = all */
	const char *function;	     /* glob on the name, NULL = all */
	uint64_t from_ns;	     /* since the trace's start */
	uint64_t to_ns;		     /* UINT64_MAX = to the end */
	uint64_t min_ns;	     /* finished calls shorter than this are left out */
};

struct walk;

/* The text of an EVENT, valid until the callback returns; a program chose it: any bytes but NUL. */
struct walk_message {
	const char *name; /* of the event's type, such as "mark" */
	const char *text;
	enum trace_role role;
	uint32_t function; /* whose call it is of, which the filters want; TRACE_NONE = of none */
};

/* The consumer's callbacks; each may be NULL. */
struct walk_ops {
	/*
	 * When frames that were open when the trace began are entered.  False: before all events.  True: before the
	 * first event of their thread; those of threads without events before all events.
	 */
	bool late_stacks;
	/*
	 * Calls that are open when the window begins count from there on, for consumers that sum up times.  Else they
	 * have the times of their entry.
	 */
	bool cuts;
	/* Every call begins, whatever the filters say: for consumers that keep state along the stack. */
	void (*on_push)(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame);
	/* Every call ends, after on_close; a call whose entry is not in the trace had no on_push and has user 0. */
	void (*on_pop)(void *ctx, struct walk *walk, const struct call_closed *closed);
	/* A call begins (in the window; function wanted). */
	void (*on_enter)(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame);
	/* A call ended (in the window; function wanted; known to be long enough). */
	void (*on_close)(void *ctx, struct walk *walk, const struct call_closed *closed);
	/* CALL, STACK, LOST and WAIT events in the window (CALL: function wanted), before the stacks see them. */
	void (*on_event)(void *ctx, struct walk *walk, const struct trace_event *event);
	/* EVENT in the window, if the trace describes its type. */
	void (*on_message)(void *ctx, struct walk *walk, const struct trace_event *event,
			   const struct walk_message *message);
};

/* The line below a table that tells of walk.gap_ticks: a format of out_format(), with the time as text (timetext()). */
#define VIEW_GAPS "time without records: %s (they were lost, or overwritten; it is in no call's Self)\n"

struct walk {
	const struct trace *trace;
	struct callstack *stack;
	const struct view_filter *filter;
	const struct walk_ops *ops;
	void *ctx;
	uint64_t from_ticks, to_ticks; /* both inclusive */
	uint64_t now_ticks;	       /* of the event that is being handled */
	uint64_t last_ticks;	       /* greatest time so far */
	bool *wanted;		       /* per function, untraced ones last; NULL = all */
	bool any_wanted;
	bool is_cut;		      /* the window has begun */
	bool is_beyond;		      /* an event behind the window was met */
	uint32_t functions, untraced; /* numbers of traced and untraced functions in `wanted` */
	bool *begun;		      /* per thread: its frames from before the trace were entered */
	uint32_t threads;
	uint64_t lost;		    /* records */
	uint64_t gap_ticks;	    /* once the pass has ended: callstack_gaps() */
	int error;		    /* a consumer's -errno, which stops the pass */
	uint64_t undescribed;	    /* EVENTs that were left out, for the trace does not describe their types */
	uint64_t damages;	    /* pieces of the file that could not be read */
	struct calltap_diag damage; /* the first damage */
};

/* Run the pass.  0, or -errno with diag.  Damage in the file is no error: walk->damages and walk->damage tell of it. */
int walk_run(struct walk *walk, const struct trace *trace, const struct view_filter *filter, const struct walk_ops *ops,
	     void *ctx, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * A pass in steps, for a trace that grows (trace/follow.h): open the pass, feed it events, end it.  The trace's tables
 * may grow in between.
 */
int walk_open(struct walk *walk, const struct trace *trace, const struct view_filter *filter,
	      const struct walk_ops *ops, void *ctx) __attribute__((warn_unused_result));
int walk_feed(struct walk *walk, const struct trace_event *event) __attribute__((warn_unused_result));
/* End all open calls; 0 or a consumer's -errno. */
int walk_end(struct walk *walk) __attribute__((warn_unused_result));
void walk_close(struct walk *walk);

/*
 * Nanoseconds of a finished call; 0 when its entry is not known.  For a frame that was open when the trace began: the
 * time of the calls in it.
 */
uint64_t walk_duration_ns(const struct walk *walk, const struct call_closed *closed);
/* A call's nanoseconds without the time that its thread was on other stacks. */
uint64_t walk_running_ns(const struct walk *walk, const struct call_closed *closed);
/* The running time of a call without the time of its callees. */
uint64_t walk_self_ns(const struct walk *walk, const struct call_closed *closed);
/* The most that walk_duration_ns() is off, because the call's entry or its end is an estimate; 0 = it is exact. */
uint64_t walk_duration_error_ns(const struct walk *walk, const struct call_closed *closed);
/* The most that a time is off, whose true value is not outside of lo and hi. */
uint64_t walk_error_ns(const struct walk *walk, uint64_t ticks, uint64_t lo, uint64_t hi);
/* Nanoseconds since the trace's start. */
uint64_t walk_since_ns(const struct walk *walk, uint64_t ticks);
/* True if -f lets this function pass. */
bool walk_wants(const struct walk *walk, uint32_t function);
/* True if the filter lets the thread pass. */
bool view_filter_has_thread(const struct view_filter *filter, const struct trace *trace, uint32_t index);
/* The same threads and chosen functions with all of their calls, whatever else the filter leaves out; `to_ns` stays. */
struct view_filter view_filter_whole(const struct view_filter *filter);
/* The losses that the rows of these threads tell of; a row is about the whole trace. */
struct view_losses {
	uint64_t records;
	bool overwritten; /* a flight recorder's older records */
};
struct view_losses view_filter_losses(const struct view_filter *filter, const struct trace *trace);
/* The records of these threads. */
uint64_t view_filter_records(const struct view_filter *filter, const struct trace *trace);
/* "returned", "unwound", ...: the word for how a call ended. */
const char *walk_end_text(enum call_end how);
/* The word for how a call was entered: "by a tail call", "before the trace"; NULL = by an ordinary call. */
const char *walk_entered_text(const struct call_frame *frame);

#endif
