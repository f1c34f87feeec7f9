/* Calls that no compiler would make, for live.c and frames.c: AArch64. */
#ifndef TEST_PROG_CPU_CALLS_H
#define TEST_PROG_CPU_CALLS_H

#include <stdint.h>

#include "../../truth.h"

#define CPU_SAVED(operation)                                                                                           \
	operation(19, 0x1111) operation(20, 0x2222) operation(21, 0x3333) operation(22, 0x4444) operation(23, 0x5555)  \
		operation(24, 0x6666) operation(25, 0x7777) operation(26, 0x8888) operation(27, 0x9999)                \
			operation(28, 0xaaaa)
#define CPU_SET(register, value)   "mov x" #register ", " #value "\n\t"
#define CPU_CHECK(register, value) "mov x2, " #value "\n\teor x2, x2, x" #register "\n\torr x1, x1, x2\n\t"

/* function(x); *changed is not 0 when a register that a callee keeps is another after it. */
UNTRACED static unsigned cpu_call_keeping(unsigned (*function)(unsigned), unsigned x, uint64_t *changed)
{
	register uint64_t argument __asm__("x0") = x;
	register uint64_t target __asm__("x1") = (uintptr_t)function;

	__asm__ volatile(CPU_SAVED(CPU_SET) "blr x1\n\tmov x1, 0\n\t" CPU_SAVED(CPU_CHECK)
			 : "+r"(argument), "+r"(target)
			 :
			 : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
			   "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
			   "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19",
			   "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
	*changed = target;
	return (unsigned)argument;
}

/* The stack is always at a multiple of 16. */
#define CPU_REALIGNS

/* By a jump through x16, as from a veneer of the linker's, with the return address put right by hand. */
UNTRACED __attribute__((noinline)) static int cpu_call_oddly(int (*realigned)(int, int, int, int, int, int, int))
{
	register long x0 __asm__("x0") = 1;
	register long x1 __asm__("x1") = 2;
	register long x2 __asm__("x2") = 3;
	register long x3 __asm__("x3") = 4;
	register long x4 __asm__("x4") = 5;
	register long x5 __asm__("x5") = 6;
	register long x6 __asm__("x6") = 7;
	register long x16 __asm__("x16") = (long)(uintptr_t)realigned;

	__asm__ volatile("adr x30, 1f\n\t"
			 "br x16\n"
			 "1:"
			 : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3), "+r"(x4), "+r"(x5), "+r"(x6), "+r"(x16)
			 :
			 : "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x17", "x30", "cc", "memory",
			   "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
			   "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
	return (int)x0;
}

#endif
