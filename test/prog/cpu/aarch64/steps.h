/*
 * A signal between any two instructions, for steps.c: AArch64 has no trap flag that a program can set, so that a
 * debugger steps it (test/e2e/stepper.py) and sends the signal. Breakpoints tell it where to begin, and where the
 * handler ends.
 */
#ifndef TEST_PROG_CPU_STEPS_H
#define TEST_PROG_CPU_STEPS_H

#include "cpu.h"

#define STEPS_ROUNDS   1 /* a step takes milliseconds */
#define STEPS_BEGIN()  CPU_BREAKPOINT()
#define STEPS_END()    CPU_BREAKPOINT()
#define STEPS_LOOKED() CPU_BREAKPOINT()

UNTRACED static uintptr_t steps_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.pc;
}

struct steps_bases {
	void *text, *data, *function;
};

const void *_Unwind_Find_FDE(void *pc, struct steps_bases *bases);

/* gcc leaves the room for a site in front of a function out of its unwind table: nobody can be found from there. */
UNTRACED static int steps_is_bare(uintptr_t pc, uintptr_t start, uintptr_t end)
{
	struct steps_bases bases;

	return pc >= start && pc < end && !_Unwind_Find_FDE((void *)pc, &bases);
}

#endif
