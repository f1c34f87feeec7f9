/*
 * Rebuilding the open calls of each thread from its events.
 *
 * Callers: the views and the exporters, through view/walk.c.  Context: host.  The caller feeds every event of a thread
 * in order; on_close gets each call that ends, with its times.  No sequence of events is an error: an exit without an
 * entry is a call entered before the trace (or lost), an entry without an exit is open at the end.
 *
 * A function that tail-calls another stays open around it, and both close when the other returns: one frame of the
 * program, with two names or more.  Loops of tail calls do not nest without bound (callstack.c says how they show).
 *
 * A LOST event leaves the open frames open, for most of them still are.  When a later exit shows that some were not,
 * frames that were open at the loss close as CALL_LOST, newer ones as CALL_UNWOUND.
 *
 * A judge may leave functions out, as if they had not been traced: their calls are followed, but not told of, and the
 * depth, the callers and the times of the others are as if these calls were not there.  A hidden call's own time is its
 * caller's.
 *
 * Frames that were open when the trace began (callstack_begin()) leave no record when they end.  The inner ones, which
 * cannot be open any more at the thread's first record, close then as CALL_LEFT; a RISE (an outermost call from as far
 * up the stack) closes more of them.  The others stay open below all calls of their stack until the end.
 */
#ifndef HOST_TRACE_CALLSTACK_H
#define HOST_TRACE_CALLSTACK_H

#include "trace.h"

enum call_end {
	CALL_RETURNED,
	CALL_UNWOUND, /* exception, longjmp, thread cancellation */
	CALL_TAILED,  /* ended by a tail call; the function that was tail-called has returned */
	CALL_OPEN,    /* still open at the end of the trace */
	CALL_LOST,    /* the exit was lost */
	CALL_LEFT,    /* open when the trace began; ended some time before, without a record */
};

/*
 * An open call.  With enter_known false, enter_ticks is the earliest time at which the call is known to have been open:
 * for an outermost call the stack's first event or last loss (calls that closed since then are its children), else its
 * exit.
 */
struct call_frame {
	uint64_t enter_ticks;
	uint64_t enter_loose;	     /* of the ticks between enter_lo and enter_hi: as the event's */
	uint64_t enter_lo, enter_hi; /* the true time is not outside of these; different where it is an estimate */
	uint64_t children_ticks;     /* time of finished direct callees, without the time on other stacks */
	uint64_t away_ticks;	     /* how long the thread had been away from the stack at the entry */
	uint64_t cut_ticks;	     /* what callstack_cut() has taken off: the entry was so much earlier */
	uint64_t slot; /* address of the return address, of a frame from before the trace; 0 = not known */
	uint32_t function;
	uint32_t depth;	  /* 0 = outermost */
	bool enter_known; /* false: entered before the trace began, in lost records, or on another thread */
	bool before;	  /* open when the trace began: enter_ticks is when the tool read the stack */
	bool has_children;
	bool tail;	 /* entered by a tail call of the frame below, where there is one */
	bool tailed;	 /* has tail-called the frame above, and ends with it */
	bool leaf;	 /* UNWIND does not count it: it ends with the frame around it, or by its EXIT */
	bool tail_shown; /* has tail-called a frame that is shown */
	bool hidden;	 /* the judge has left it out; no consumer sees it, and `depth` is that of a shown frame here */
	bool root : 1;	 /* the thread's calls are in a tree while this one is open */
	bool in_notree : 1; /* this call or one around it hides what it calls */
	uint64_t user;	    /* for the consumer; 0 at entry */
};

struct call_closed {
	const struct call_frame *frame;
	const struct call_frame *parent; /* NULL = outermost */
	uint32_t thread;
	uint64_t exit_ticks;
	uint64_t exit_lo, exit_hi, exit_loose; /* as the frame's enter_lo, enter_hi and enter_loose */
	uint64_t away_ticks;		       /* part of the call's time in which the thread ran on other stacks */
	enum call_end how;
};

static inline bool call_is_estimated(const struct call_closed *closed)
{
	return closed->exit_lo != closed->exit_hi || closed->frame->enter_lo != closed->frame->enter_hi;
}

/* The least time that passed between the call's entry and its end. */
static inline uint64_t call_least_ticks(const struct call_closed *closed)
{
	return closed->exit_lo > closed->frame->enter_hi ? closed->exit_lo - closed->frame->enter_hi : 0;
}

/* The most time that passed; UINT64_MAX = not known. */
static inline uint64_t call_most_ticks(const struct call_closed *closed)
{
	if (closed->exit_hi == UINT64_MAX)
		return UINT64_MAX;
	return closed->exit_hi > closed->frame->enter_lo ? closed->exit_hi - closed->frame->enter_lo : 0;
}

struct callstack; /* all threads of a trace */

/* A judge's answer about a function. */
enum call_judgement {
	CALL_INSIDE = 1,  /* its calls are shown in trees */
	CALL_OUTSIDE = 2, /* its calls are shown outside of trees */
	CALL_ROOT = 4,	  /* its call is a tree, with the calls in it */
	CALL_NOTREE = 8	  /* neither its call nor the calls in it are shown */
};

struct callstack_ops {
	/* Judge the function: CALL_* bits, the same ones at each call.  NULL: all calls are shown. */
	unsigned (*judge)(void *ctx, uint32_t function);
	/* Called after the frame was pushed. */
	void (*on_enter)(void *ctx, struct callstack *stack, uint32_t thread, struct call_frame *frame);
	/* Called before the frame is popped. */
	void (*on_close)(void *ctx, struct callstack *stack, const struct call_closed *closed);
};

/* trace may be NULL: then frames from before the trace and the recording's end are not known. */
int callstack_create(struct callstack **out, const struct trace *trace, const struct callstack_ops *ops, void *ctx)
	__attribute__((warn_unused_result));
void callstack_destroy(struct callstack *stack);
/* Open the frames that were open on the thread when the trace began; before its first event.  0, or -ENOMEM. */
int callstack_begin(struct callstack *stack, uint32_t thread) __attribute__((warn_unused_result));
/* 0, or -ENOMEM. */
int callstack_feed(struct callstack *stack, const struct trace_event *event) __attribute__((warn_unused_result));
/*
 * From here on only time from `ticks` on counts, which is not before the last event: calls that are open, and not from
 * before the trace, are as if they had been entered then, and without the callees that have ended.
 */
void callstack_cut(struct callstack *stack, uint64_t ticks);
/*
 * Close the open calls of every thread as CALL_OPEN, innermost first, at the time when their thread or process ended,
 * else at the last time fed, or the END chunk's if that is later; but not later than to_ticks.
 */
void callstack_finish(struct callstack *stack, uint64_t to_ticks);
/* The time of all threads, since the cut, from the last event in front of a loss to the first one behind it. */
uint64_t callstack_gaps(const struct callstack *stack);
/*
 * A number for the thread's current stack, unique among all stacks that are in use: the thread's index for its first
 * stack, above CALLSTACK_OTHER for others.  A stack with nothing open may lose its number to another stack.
 */
#define CALLSTACK_OTHER (1u << 31)
uint32_t callstack_chain(const struct callstack *stack, uint32_t thread);
/* True if the thread's current stack is the one that STACK events name so. */
bool callstack_is_on(const struct callstack *stack, uint32_t thread, uint64_t address);
/* The number of the thread's current stack among the thread's stacks, from 0 on. */
uint32_t callstack_current(const struct callstack *stack, uint32_t thread);
/* False: the innermost call of the thread's current stack is hidden. */
bool callstack_shows(const struct callstack *stack, uint32_t thread);
/* Open frames of a thread's current stack that are shown, outermost first. */
uint32_t callstack_depth(const struct callstack *stack, uint32_t thread);
struct call_frame *callstack_frame(struct callstack *stack, uint32_t thread, uint32_t depth);

#endif
