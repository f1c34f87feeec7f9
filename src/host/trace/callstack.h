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
	uint64_t children_ticks; /* time of finished direct callees, without the time on other stacks */
	uint64_t away_ticks;	 /* how long the thread had been away from the stack at the entry */
	uint64_t slot;		 /* address of the return address, of a frame from before the trace; 0 = not known */
	uint32_t function;
	uint32_t depth;	  /* 0 = outermost */
	bool enter_known; /* false: entered before the trace began, in lost records, or on another thread */
	bool before;	  /* open when the trace began: enter_ticks is when the tool read the stack */
	bool has_children;
	bool tail;     /* entered by a tail call of the frame below, where there is one */
	bool tailed;   /* has tail-called the frame above, and ends with it */
	uint64_t user; /* for the consumer; 0 at entry */
};

struct call_closed {
	const struct call_frame *frame;
	const struct call_frame *parent; /* NULL = outermost */
	uint32_t thread;
	uint64_t exit_ticks;
	uint64_t away_ticks; /* part of the call's time in which the thread ran on other stacks */
	enum call_end how;
};

struct callstack; /* all threads of a trace */

struct callstack_ops {
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
 * Close the open calls of every thread as CALL_OPEN, innermost first, at the time when their thread or process ended,
 * else at the last time fed, or the END chunk's if that is later; but not later than to_ticks.
 */
void callstack_finish(struct callstack *stack, uint64_t to_ticks);
/*
 * A number for the thread's current stack, unique among all stacks that are in use: the thread's index for its first
 * stack, above CALLSTACK_OTHER for others.  A stack with nothing open may lose its number to another stack.
 */
#define CALLSTACK_OTHER (1u << 31)
uint32_t callstack_chain(const struct callstack *stack, uint32_t thread);
/* The number of the thread's current stack among the thread's stacks, from 0 on. */
uint32_t callstack_current(const struct callstack *stack, uint32_t thread);
/* Open frames of a thread's current stack, outermost first. */
uint32_t callstack_depth(const struct callstack *stack, uint32_t thread);
struct call_frame *callstack_frame(struct callstack *stack, uint32_t thread, uint32_t depth);

#endif
