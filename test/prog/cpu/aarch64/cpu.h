/* The parts of the test programs that depend on the CPU: AArch64.  See x86_64/cpu.h. */
#ifndef TEST_PROG_CPU_H
#define TEST_PROG_CPU_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#include "../../truth.h"

#define CPU_BREAKPOINT()      __asm__ volatile("brk 0")
#define CPU_BREAKPOINT_LENGTH 4
#define CPU_ILLEGAL()	      __asm__ volatile("udf 0")
#define CPU_ILLEGAL_LENGTH    4

#define CPU_DIVISION_TRAPS 0
#define CPU_GLIBC_BASE	   "GLIBC_2.17"

#if defined(__clang__)
#define CPU_HAS_BUILTIN_SETJMP 0
#else
#define CPU_HAS_BUILTIN_SETJMP 1
#endif

/* gcc knows no naked function here, so that the site is made by hand, as the compilers make one. */
#define CPU_NAKED(name, ...)                                                                                           \
	__asm__(".text\n"                                                                                              \
		".balign 4\n"                                                                                          \
		".globl " #name "\n"                                                                                   \
		".type " #name ", %function\n" #name ":\n"                                                             \
		"	hint 34 // bti c\n"                                                                                  \
		".L" #name "_site:\n"                                                                                  \
		"	nop\n"                                                                                               \
		"	" __VA_ARGS__ "\n"                                                                             \
		".size " #name ", . - " #name "\n"                                                                     \
		".section __patchable_function_entries, \"awo\", %progbits, " #name "\n"                               \
		".balign 8\n"                                                                                          \
		".8byte .L" #name "_site\n"                                                                            \
		".text\n");
#define CPU_NAKED_ADD_4(name)                                                                                          \
	CPU_NAKED(name, "add w0, w0, 4\n\tret")                                                                        \
	int name(int x);

/* A vector that is wider than the CPU's is passed in memory. */
#define CPU_WITH_V8
#define CPU_WITH_V16
#define CPU_HAS_V8  1
#define CPU_HAS_V16 1
typedef long double cpu_quad;

UNTRACED static inline void cpu_skip(void *context, int length)
{
	((ucontext_t *)context)->uc_mcontext.pc += length;
}

/* No division traps here. */
UNTRACED static inline long cpu_divide(volatile long by)
{
	if (!by)
		raise(SIGFPE);
	return by ? 10 / by : 0;
}

/* Where the handler with this context goes back to. */
#define CPU_CONTEXT_PC(context) (((ucontext_t *)(context))->uc_mcontext.pc)

#endif
