/* The parts of the test programs that depend on the CPU: RISC-V 64.  See x86_64/cpu.h. */
#ifndef TEST_PROG_CPU_H
#define TEST_PROG_CPU_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#include "../../truth.h"

#define CPU_BREAKPOINT()      __asm__ volatile(".option push\n\t.option norvc\n\tebreak\n\t.option pop")
#define CPU_BREAKPOINT_LENGTH 4
#define CPU_ILLEGAL()	      __asm__ volatile(".option push\n\t.option norvc\n\tunimp\n\t.option pop")
#define CPU_ILLEGAL_LENGTH    4

#define CPU_DIVISION_TRAPS 0
#define CPU_GLIBC_BASE	   "GLIBC_2.27"

#if defined(__clang__)
#define CPU_HAS_BUILTIN_SETJMP 0
#else
#define CPU_HAS_BUILTIN_SETJMP 1
#endif

#define CPU_NAKED_ADD_4(name)                                                                                          \
	__attribute__((naked, used)) TRACED int name(int x)                                                            \
	{                                                                                                              \
		__asm__("addiw a0, a0, 4\n\tret");                                                                     \
	}

/* Any vector is passed in memory. */
#define CPU_WITH_V8
#define CPU_WITH_V16
#define CPU_HAS_V8  1
#define CPU_HAS_V16 1
typedef long double cpu_quad;

UNTRACED static inline void cpu_skip(void *context, int length)
{
	((ucontext_t *)context)->uc_mcontext.__gregs[REG_PC] += length;
}

/* No division traps here. */
UNTRACED static inline long cpu_divide(volatile long by)
{
	if (!by)
		raise(SIGFPE);
	return by ? 10 / by : 0;
}

/* Where the handler with this context goes back to. */
#define CPU_CONTEXT_PC(context) (((ucontext_t *)(context))->uc_mcontext.__gregs[REG_PC])

#endif
