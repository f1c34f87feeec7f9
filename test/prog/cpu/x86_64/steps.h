/* A signal between any two instructions, for steps.c: on x86-64 the CPU itself sends it, while its trap flag is set. */
#ifndef TEST_PROG_CPU_STEPS_H
#define TEST_PROG_CPU_STEPS_H

#include <stdint.h>
#include <ucontext.h>

#include "../../truth.h"

#define TRAP_FLAG      0x100
#define STEPS_ROUNDS   3
#define STEPS_BEGIN()  __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(TRAP_FLAG) : "memory", "cc")
#define STEPS_END()    __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" : : "i"(~TRAP_FLAG) : "memory", "cc")
#define STEPS_LOOKED() /* the handler's end */

UNTRACED static uintptr_t steps_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

/*
 * A jump right before a function, in the room that -fpatchable-function-entry=N,M leaves there: compilers put it into
 * no unwind table, so that nobody can be found from there.
 */
UNTRACED static int steps_is_bare(uintptr_t pc, uintptr_t start, uintptr_t end)
{
	return pc + 5 == start && *(const unsigned char *)pc == 0xe9;
}

#endif
