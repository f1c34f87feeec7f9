/*
 * Traced frames that end without an exit, and stacks that begin: unwinders, and functions that the agent room puts in
 * front of libc's, tell of them here, on the program's thread.  Context: probe.
 */
#ifndef PROBE_UNWOUND_H
#define PROBE_UNWOUND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The stubs' personality routine (arch_eh_frame_build): an unwinder calls it for each stub's frame, innermost first, as
 * it unwinds for an exception, a cancellation or a thread's exit.
 */
int probe_frame_unwound(int version, int actions, uint64_t exception_class, void *exception, void *context);
/* The program is about to longjmp to where the stack pointer is sp. */
void probe_jump(uint64_t sp);
/* The program says that [lo, hi) is a stack from now on: a signal stack, or one for a context that starts anew. */
void probe_stack_made(uint64_t lo, uint64_t hi, bool is_signal);
/* makecontext() is about to make this context (ucontext_t), whose stack begins anew; forward.S calls this. */
void probe_context_made(const void *context);
/*
 * swapcontext() was called with its return address `back` in that slot, and keeps it in the context.  Where `back` is
 * in a stub, the traced function has jumped to swapcontext() as its last: its frame ends here.  Returns the address to
 * return to.
 */
uint64_t probe_context_left(uint64_t slot, uint64_t back);

#endif
