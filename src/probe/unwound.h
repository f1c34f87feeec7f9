/*
 * What ends traced frames without an exit, and where stacks come from: told by
 * those who know.  Context: probe.
 */
#ifndef PROBE_UNWOUND_H
#define PROBE_UNWOUND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The stubs' personality routine (arch_eh_frame_build): an unwinder calls it
 * for each frame of theirs, innermost first, as it unwinds for an exception, a
 * cancellation or a thread's exit.
 */
int probe_frame_unwound(int version, int actions, uint64_t exception_class, void *exception, void *context);
/* The program is about to longjmp to where the stack pointer is sp. */
void probe_jump(uint64_t sp);
/* The program says that [lo, hi) is a stack from now on: a signal stack, or one for a context that starts anew. */
void probe_stack_made(uint64_t lo, uint64_t hi, bool is_signal);
/* The same, of a context (ucontext_t) that makecontext() is to make; forward.S calls it. */
void probe_context_made(const void *context);
/*
 * swapcontext() was called with its return address `back` in that slot, which
 * it keeps in the context.  Where it is a stub's, the traced function has jumped
 * there as its last: the frame ends here.  Returns the address to return to.
 */
uint64_t probe_context_left(uint64_t slot, uint64_t back);

#endif
