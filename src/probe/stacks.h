/*
 * Which stack a slot lies on, and where each stack's traced frames are.
 *
 * A thread may run on any memory: its own stack, a signal stack, coroutines'
 * stacks side by side in one block.  Only the graph depends on what is said
 * here; return addresses come from the mirror alone.  doc/design/stacks.md has
 * the rules and their argument.  Context: probe, slow path.
 */
#ifndef PROBE_STACKS_H
#define PROBE_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#define STACK_EXACT  1u	 /* `lowest` and `end` are known: makecontext, sigaltstack */
#define STACK_SIGNAL 2u	 /* what runs here interrupted something, and goes back to it */
#define STACK_THREAD 4u	 /* a thread's own */
#define STACK_MAIN   8u	 /* the initial thread's: nothing else is near */
#define STACK_ENDING 16u /* its thread is being unwound by force: all entries go through C */

#define STACK_TO_C ((uint64_t)1) /* in `top`: the frame's exit goes through C */

/* Two threads never run on one stack, so its words are its runner's; a signal handler leaves them as it found them. */
struct probe_stack {
	uint64_t top;		  /* slot of the innermost traced frame, `rest` = none; may have STACK_TO_C */
	uint64_t low;		  /* entries from here to top are on this stack for sure: the fast path */
	uint64_t lowest;	  /* slots from here to end are on this stack */
	uint64_t end;		  /* first address above it; the one below names it in STACK records */
	struct probe_stack *from; /* where the thread was when it came here last; NULL until it did */
	uint64_t rest;		  /* above all traced frames: `end`, or behind the highest slot that was told (RISE) */
	uint32_t kind;
} __attribute__((aligned(64)));

struct probe_thread;

/* What a thread starts with: no slot is on it.  Never written. */
extern struct probe_stack probe_stack_none __attribute__((visibility("hidden")));

/* The stack of an address, if known; NULL = not. */
struct probe_stack *probe_stack_find(struct probe_thread *thread, uint64_t address);
/*
 * Make the stack of a slot the thread's current one, and record the change.
 * NULL: no memory to note a new stack in; nothing was changed.
 */
struct probe_stack *probe_stack_settle(struct probe_thread *thread, uint64_t slot);
/* The thread goes on on a stack: record that. */
void probe_stack_switch(struct probe_thread *thread, struct probe_stack *stack);
/* A handler's last traced frame on a signal stack has ended: what it interrupted finds the thread as it left it. */
void probe_stack_leave(struct probe_thread *thread, struct probe_stack *stack);
/* No thread is on any of these stacks, and no frame is left: forget them all; threads may point to them still. */
struct stack_ends;
void probe_stack_ends_empty(struct stack_ends *ends);
/* The thread that runs on the stack is ending. */
void probe_stack_ends(struct probe_stack *stack);
/* A stack that cannot be one any more once [lo, hi) is; NULL = none is left. */
struct probe_stack *probe_stack_overlapping(uint64_t lo, uint64_t hi, uint32_t kind);
/* The memory is no stack any more. */
void probe_stack_forget(struct probe_stack *stack);
/* The program says that [lo, hi) is a stack from now on: a signal stack of the thread's, or a context's. */
void probe_stack_announce(struct probe_thread *thread, uint64_t lo, uint64_t hi, uint32_t kind);
/* The thread's handlers run on its own stack from now on. */
void probe_stack_disable(struct probe_thread *thread);

/* An entry at slot finds no frame on the stack: tell how far up that is, if it is news. */
void probe_stack_rise(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot);

/* The slot of the innermost traced frame; `end` = there is none. */
static inline uint64_t probe_stack_top(const struct probe_stack *stack)
{
	uint64_t top = stack->top & ~STACK_TO_C;

	return top < stack->rest ? top : stack->end;
}

static inline void probe_stack_set_top(struct probe_stack *stack, uint64_t top)
{
	stack->top = (top < stack->rest ? top : stack->rest) | (stack->kind & STACK_SIGNAL ? STACK_TO_C : 0);
}

static inline bool probe_stack_is_empty(const struct probe_stack *stack)
{
	return probe_stack_top(stack) == stack->end;
}

#endif
