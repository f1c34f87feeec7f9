/*
 * One filtered pass over a trace with its call stacks: the loop under every
 * view and exporter.
 *
 * Context: host.  Events outside of the time window still move the stacks, so
 * that depth and open calls are right inside it; they are not shown.
 */
#ifndef HOST_VIEW_WALK_H
#define HOST_VIEW_WALK_H

#include "../trace/callstack.h"
#include "../trace/trace.h"

struct view_filter {
	uint32_t pid;	      /* 0 = all */
	uint32_t tid;	      /* 0 = all */
	const char *function; /* glob on the name, NULL = all */
	uint64_t from_ns;     /* since the trace's start */
	uint64_t to_ns;	      /* UINT64_MAX = to the end */
	uint64_t min_ns;      /* finished calls shorter than this are left out */
};

struct walk;

/* What an EVENT says, until the callback returns; from a program, so any bytes but NUL. */
struct walk_message {
	const char *name; /* of its type, such as "mark" */
	const char *text;
};

struct walk_ops {
	/*
	 * Frames that were open when the trace began are entered before all events; with this before the first event
	 * of their thread, or the first of all for threads that have none.
	 */
	bool late_stacks;
	/* Every call, whatever the filters say: for consumers that keep state along the stack. */
	void (*on_push)(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame);
	/* The same when it ends, after on_close; a call entered before the trace had no on_push and has user 0. */
	void (*on_pop)(void *ctx, struct walk *walk, const struct call_closed *closed);
	/* A call begins (in the window; function wanted). */
	void (*on_enter)(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame);
	/* A call ended (in the window; function wanted; known to be long enough). */
	void (*on_close)(void *ctx, struct walk *walk, const struct call_closed *closed);
	/* CALL, STACK, LOST and WAIT events in the window (CALL: function wanted), before the stacks see them. */
	void (*on_event)(void *ctx, struct walk *walk, const struct trace_event *event);
	/* Likewise EVENT, if the trace describes its type. */
	void (*on_message)(void *ctx, struct walk *walk, const struct trace_event *event,
			   const struct walk_message *message);
};

struct walk {
	const struct trace *trace;
	struct callstack *stack;
	const struct view_filter *filter;
	const struct walk_ops *ops;
	void *ctx;
	uint64_t from_ticks, to_ticks; /* both inclusive */
	uint64_t now_ticks;	       /* of the event that is being handled */
	uint64_t last_ticks;	       /* the greatest so far: the end of open calls */
	bool *wanted;		       /* per function, untraced ones last; NULL = all */
	bool any_wanted;
	uint32_t functions, untraced; /* how many in there */
	bool *begun;		      /* per thread: what was open at the beginning has been entered */
	uint32_t threads;
	int error;		    /* a consumer's -errno: stops the pass */
	uint64_t undescribed;	    /* EVENTs of types that nothing in the trace describes; passed over */
	uint64_t damages;	    /* pieces of the file that could not be read */
	struct calltap_diag damage; /* the first of them */
};

/*
 * Run the pass.  0, or -errno with diag; damage in the file is not an error:
 * it is left in walk->damages and walk->damage.
 */
int walk_run(struct walk *walk, const struct trace *trace, const struct view_filter *filter, const struct walk_ops *ops,
	     void *ctx, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * The same in steps, for a trace that grows (trace/follow.h): open the pass,
 * feed it events, end it.  The trace's tables may grow in between.
 */
int walk_open(struct walk *walk, const struct trace *trace, const struct view_filter *filter,
	      const struct walk_ops *ops, void *ctx) __attribute__((warn_unused_result));
int walk_feed(struct walk *walk, const struct trace_event *event) __attribute__((warn_unused_result));
/* Ends what is open; 0 or a consumer's -errno. */
int walk_end(struct walk *walk) __attribute__((warn_unused_result));
void walk_close(struct walk *walk);

/*
 * Nanoseconds of a finished call; 0 when its entry is not known.  Of a frame
 * that was open when the trace began: those of the calls in it.
 */
uint64_t walk_duration_ns(const struct walk *walk, const struct call_closed *closed);
/* Without the time that its thread was on other stacks. */
uint64_t walk_running_ns(const struct walk *walk, const struct call_closed *closed);
/* The running time of a call without the time of its callees. */
uint64_t walk_self_ns(const struct walk *walk, const struct call_closed *closed);
/* Nanoseconds since the trace's start. */
uint64_t walk_since_ns(const struct walk *walk, uint64_t ticks);
/* Whether -f lets this function pass. */
bool walk_wants(const struct walk *walk, uint32_t function);
/* "returned", "unwound", ...: the word for how a call ended. */
const char *walk_end_text(enum call_end how);
/* How it was entered, if that is not by an ordinary call: "by a tail call", "before the trace"; else NULL. */
const char *walk_entered_text(const struct call_frame *frame);

#endif
