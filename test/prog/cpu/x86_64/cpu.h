/* The parts of the test programs that depend on the CPU: x86-64.  The other CPUs' directories define the same names. */
#ifndef TEST_PROG_CPU_H
#define TEST_PROG_CPU_H

#include <stdint.h>
#include <ucontext.h>

#include "../../truth.h"

/* A breakpoint of the program's own, and how far behind its signal the program goes on. */
#define CPU_BREAKPOINT()      __asm__ volatile("int3")
#define CPU_BREAKPOINT_LENGTH 0
/* Bytes that are no instruction. */
#define CPU_ILLEGAL()	   __asm__ volatile("ud2")
#define CPU_ILLEGAL_LENGTH 2

/* Whether a division by zero is SIGFPE. */
#define CPU_DIVISION_TRAPS 1

/* The version of the oldest symbols of libc. */
#define CPU_GLIBC_BASE "GLIBC_2.2.5"

/* Whether this compiler has __builtin_setjmp(), which jumps without libc. */
#define CPU_HAS_BUILTIN_SETJMP 1

/* int naked(int x): the compiler adds the site, and nothing else; it gives x + 4. */
#define CPU_NAKED_ADD_4(name)                                                                                          \
	__attribute__((naked, used)) TRACED int name(int x)                                                            \
	{                                                                                                              \
		__asm__("lea 4(%rdi), %eax\n\tret");                                                                   \
	}

/* Vectors wider than the CPU may have, and a floating-point number of 128 bits. */
#define CPU_WITH_V8  __attribute__((target("avx")))
#define CPU_WITH_V16 __attribute__((target("avx512f")))
#define CPU_HAS_V8   __builtin_cpu_supports("avx")
#define CPU_HAS_V16  __builtin_cpu_supports("avx512f")
typedef __float128 cpu_quad;

UNTRACED static inline void cpu_skip(void *context, int length)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += length;
}

/* 10 / by; a division by zero is SIGFPE. */
UNTRACED static inline long cpu_divide(volatile long by)
{
	long quotient = 10, rest = 0;

	__asm__ volatile("idivq %2" : "+a"(quotient), "+d"(rest) : "rm"(by));
	return quotient;
}

/* Where the handler with this context goes back to. */
#define CPU_CONTEXT_PC(context) (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RIP])

#endif
