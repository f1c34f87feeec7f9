/* Calls that no compiler would make, for live.c and frames.c: RISC-V 64. */
#ifndef TEST_PROG_CPU_CALLS_H
#define TEST_PROG_CPU_CALLS_H

#include <stdint.h>

#include "../../truth.h"

#define CPU_SAVED(operation)                                                                                           \
	operation(s1, 0x111) operation(s2, 0x222) operation(s3, 0x333) operation(s4, 0x444) operation(s5, 0x555)       \
		operation(s6, 0x666) operation(s7, 0x777) operation(s8, 0x188) operation(s9, 0x199)                    \
			operation(s10, 0x1aa) operation(s11, 0x1bb)
#define CPU_SET(register, value)   "li " #register ", " #value "\n\t"
#define CPU_CHECK(register, value) "xori " #register ", " #register ", " #value "\n\tor a1, a1, " #register "\n\t"

/* function(x); *changed is not 0 when a register that a callee keeps is another after it. */
UNTRACED static unsigned cpu_call_keeping(unsigned (*function)(unsigned), unsigned x, uint64_t *changed)
{
	register uint64_t argument __asm__("a0") = x;
	register uint64_t target __asm__("a1") = (uintptr_t)function;

	__asm__ volatile(CPU_SAVED(CPU_SET) "jalr a1\n\tli a1, 0\n\t" CPU_SAVED(CPU_CHECK)
			 : "+r"(argument), "+r"(target)
			 :
			 : "ra", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1",
			   "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "ft0", "ft1", "ft2", "ft3",
			   "ft4", "ft5", "ft6", "ft7", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "ft8",
			   "ft9", "ft10", "ft11", "memory");
	*changed = target;
	return (unsigned)argument;
}

/* The stack is always at a multiple of 16. */
#define CPU_REALIGNS

/* By a jump, with the return address put right by hand. */
UNTRACED __attribute__((noinline)) static int cpu_call_oddly(int (*realigned)(int, int, int, int, int, int, int))
{
	register long a0 __asm__("a0") = 1;
	register long a1 __asm__("a1") = 2;
	register long a2 __asm__("a2") = 3;
	register long a3 __asm__("a3") = 4;
	register long a4 __asm__("a4") = 5;
	register long a5 __asm__("a5") = 6;
	register long a6 __asm__("a6") = 7;
	register long a7 __asm__("a7") = (long)(uintptr_t)realigned;

	__asm__ volatile("lla ra, 1f\n\t"
			 "jr a7\n"
			 "1:"
			 : "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4), "+r"(a5), "+r"(a6), "+r"(a7)
			 :
			 : "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5",
			   "ft6", "ft7", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "ft8", "ft9", "ft10",
			   "ft11", "memory");
	return (int)a0;
}

#endif
