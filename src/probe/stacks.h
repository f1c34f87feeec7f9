/*
 * Stacks: which one a slot lies on, and where each one's traced frames are.
 *
 * A thread may run on any memory: its own stack, a signal stack, coroutines' stacks side by side in one block.  Only
 * the graph depends on what this file says; return addresses come from the mirror alone. doc/design/stacks.md has the
 * rules and their argument.  Called by the files of the probe room on the program's thread.  Context: probe, slow path.
 */
#ifndef PROBE_STACKS_H
#define PROBE_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#define STACK_EXACT  1u	 /* `lowest` and `end` are known: makecontext, sigaltstack */
#define STACK_SIGNAL 2u	 /* signal handlers run here: they interrupted something, and go back to it */
#define STACK_THREAD 4u	 /* a thread's own stack */
#define STACK_MAIN   8u	 /* the initial thread's own stack: no other mapping is near */
#define STACK_ENDING 16u /* the stack's thread is being unwound by force: all entries go through C */

#define STACK_TO_C ((uint64_t)1) /* in `top`: the frame's exit goes through C */

/*
 * Two threads never run on one stack, so these words are its runner's own; a signal handler leaves them as it found
 * them.
 */
struct probe_stack {
	uint64_t top;		  /* slot of the innermost traced frame, `rest` = none; may have STACK_TO_C */
	uint64_t low;		  /* entries from here to top are on this stack for sure: the fast path */
	uint64_t lowest;	  /* slots from here to end are on this stack */
	uint64_t end;		  /* first address above the stack; end - 1 names it in STACK records */
	struct probe_stack *from; /* the stack that the thread came from last; NULL before it first came */
	uint64_t rest;		  /* above all traced frames: `end`, or behind the highest slot that was told (RISE) */
	uint32_t kind;
	uint32_t loss; /* probe_thread.losses when readers were told last how many frames are open here (open.h) */
} __attribute__((aligned(64)));

struct probe_thread;

/* The stack that a thread starts with: no slot is on it.  Never written. */
extern struct probe_stack probe_stack_none __attribute__((visibility("hidden")));

/* The stack that an address is on; NULL: not known. */
struct probe_stack *probe_stack_find(struct probe_thread *thread, uint64_t address);
/*
 * Make the stack of a slot the thread's current one, and record the change.
 * NULL: no memory to note a new stack in; nothing was changed.
 */
struct probe_stack *probe_stack_settle(struct probe_thread *thread, uint64_t slot);
/* The thread goes on on `stack`: record the change. */
void probe_stack_switch(struct probe_thread *thread, struct probe_stack *stack);
/* A signal handler's last traced frame on the stack has ended: go back to the stack that the signal interrupted. */
void probe_stack_leave(struct probe_thread *thread, struct probe_stack *stack);
/* Forget all stacks of `ends`.  No thread is on any of them, and no frame is open; threads may still point to them. */
struct stack_ends;
void probe_stack_ends_empty(struct stack_ends *ends);
/* The thread that runs on the stack is ending. */
void probe_stack_ends(struct probe_stack *stack);
/* Returns a stack that cannot be one any more once [lo, hi) is a stack; NULL: none is left. */
struct probe_stack *probe_stack_overlapping(uint64_t lo, uint64_t hi, uint32_t kind);
/* Forget the stack: its memory is no stack any more. */
void probe_stack_forget(struct probe_stack *stack);
/* The program says that [lo, hi) is a stack from now on: a signal stack of the thread's, or a context's. */
void probe_stack_announce(struct probe_thread *thread, uint64_t lo, uint64_t hi, uint32_t kind);
/* The thread's signal handlers run on its own stack from now on. */
void probe_stack_disable(struct probe_thread *thread);

/* An entry at slot finds no frame on the stack: record how far up slot is, if the trace does not know of it. */
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
