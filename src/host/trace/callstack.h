/*
 * Rebuilding the open calls of each thread from its events.
 *
 * Context: host.  Feed every event of a thread in order; each call that ends
 * is handed to on_close with its times.  Never fails on a strange sequence:
 * an exit without an entry is a call entered before the trace (or lost), an
 * entry without an exit is open at the end.
 *
 * A function that tail-calls another stays open around it, and both close when
 * the other returns: one frame of the program, with two names or more.  Loops
 * of tail calls do not nest without bound (callstack.c says how they show).
 *
 * A LOST event leaves the open frames open, for most of them still are.  When
 * a later exit shows that some were not, those that were open at the loss
 * close as CALL_LOST, newer ones as CALL_UNWOUND.
 *
 * Frames that were open when the trace began (callstack_begin()) write no
 * record when they end.  What cannot be open any more when the thread records
 * first closes as CALL_LEFT then, and more when a RISE tells of an outermost
 * call from as far up the stack; the rest lies below everything of its stack
 * until the end.
 */
#ifndef HOST_TRACE_CALLSTACK_H
#define HOST_TRACE_CALLSTACK_H

#include "trace.h"

enum call_end {
	CALL_RETURNED,
	CALL_UNWOUND, /* exception, longjmp, thread cancellation */
	CALL_TAILED,  /* ended by a tail call, and that function has returned */
	CALL_OPEN,    /* still open at the end of the trace */
	CALL_LOST,    /* its exit was lost */
	CALL_LEFT,    /* open when the trace began, and over, unseen, before this */
};

/*
 * With enter_known false, enter_ticks is the earliest time that the call is
 * known to have been there: for an outermost call the stack's first event or
 * last loss (and what closed since then are its children), else its exit.
 */
struct call_frame {
	uint64_t enter_ticks;
	uint64_t children_ticks; /* total of finished direct callees, while the thread ran on their stack */
	uint64_t away_ticks;	 /* how long the thread had been away from the stack at the entry */
	uint64_t slot;		 /* of one from before the trace: where its return address lies, 0 = not known */
	uint32_t function;
	uint32_t depth;	  /* 0 = outermost */
	bool enter_known; /* false: entered before the trace began, in lost records, or on another thread */
	bool before;	  /* open when the trace began; enter_known is false, enter_ticks is when it was seen */
	bool has_children;
	bool tail;     /* entered by a tail call: of the frame below, where there is one */
	bool tailed;   /* has tail-called the frame above, and ends with it */
	uint64_t user; /* for the consumer; 0 at entry */
};

struct call_closed {
	const struct call_frame *frame;
	const struct call_frame *parent; /* NULL = outermost */
	uint32_t thread;
	uint64_t exit_ticks;
	uint64_t away_ticks; /* of the call's time: the thread ran on other stacks */
	enum call_end how;
};

struct callstack; /* all threads of a trace */

struct callstack_ops {
	/* Called after the frame was pushed. */
	void (*on_enter)(void *ctx, struct callstack *stack, uint32_t thread, struct call_frame *frame);
	/* Called before the frame is popped. */
	void (*on_close)(void *ctx, struct callstack *stack, const struct call_closed *closed);
};

/* trace may be NULL: then nothing is known of the recording's end. */
int callstack_create(struct callstack **out, const struct trace *trace, const struct callstack_ops *ops, void *ctx)
	__attribute__((warn_unused_result));
void callstack_destroy(struct callstack *stack);
/* Open what the trace says was open on the thread at its beginning; before its first event.  0, or -ENOMEM. */
int callstack_begin(struct callstack *stack, uint32_t thread) __attribute__((warn_unused_result));
/* 0, or -ENOMEM. */
int callstack_feed(struct callstack *stack, const struct trace_event *event) __attribute__((warn_unused_result));
/*
 * Close what is open in every thread as CALL_OPEN, innermost first: when its
 * thread or process ended, else at the last time fed or the END chunk's if
 * that is later; but not later than to_ticks.
 */
void callstack_finish(struct callstack *stack, uint64_t to_ticks);
/*
 * The thread's current stack, by a number: its index for the first one of each
 * thread, CALLSTACK_OTHER and more for others, and none comes twice.  It is
 * another stack's when nothing is open on the one that had it.
 */
#define CALLSTACK_OTHER (1u << 31)
uint32_t callstack_chain(const struct callstack *stack, uint32_t thread);
/* The number of the thread's current stack among the thread's stacks, from 0 on. */
uint32_t callstack_current(const struct callstack *stack, uint32_t thread);
/* Open frames of a thread's current stack, outermost first. */
uint32_t callstack_depth(const struct callstack *stack, uint32_t thread);
struct call_frame *callstack_frame(struct callstack *stack, uint32_t thread, uint32_t depth);

#endif
