/* Calls that no compiler would make, for live.c and frames.c: x86-64. */
#ifndef TEST_PROG_CPU_CALLS_H
#define TEST_PROG_CPU_CALLS_H

#include <stdint.h>

#include "../../truth.h"

/* function(x); *changed is not 0 when a register that a callee keeps is another after it. */
UNTRACED static unsigned cpu_call_keeping(unsigned (*function)(unsigned), unsigned x, uint64_t *changed)
{
	uint64_t result;

	__asm__ volatile("sub $136, %%rsp\n\t"
			 "mov $0x1111, %%ebx\n\tmov $0x2222, %%r12d\n\tmov $0x3333, %%r13d\n\tmov $0x4444, %%r14d\n\t"
			 "mov %%rsp, %%r15\n\t"
			 "and $-16, %%rsp\n\t"
			 "call *%%rax\n\t"
			 "mov %%r15, %%rsp\n\t"
			 "add $136, %%rsp\n\t"
			 "xor $0x1111, %%rbx\n\txor $0x2222, %%r12\n\txor $0x3333, %%r13\n\txor $0x4444, %%r14\n\t"
			 "or %%r12, %%rbx\n\tor %%r13, %%rbx\n\tor %%r14, %%rbx\n\tmov %%rbx, %%rcx\n\t"
			 : "=a"(result), "=c"(*changed), "+D"(x)
			 : "a"(function)
			 : "rbx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
			   "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
	return (unsigned)result;
}

/* The function realigns its stack on entry. */
#define CPU_REALIGNS __attribute__((force_align_arg_pointer))

/* realigned(1, ... 7), as an old compiler or another language would call it: with the stack at 8 modulo 16. */
UNTRACED __attribute__((noinline)) static int cpu_call_oddly(int (*realigned)(int, int, int, int, int, int, int))
{
	int result;

	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "and $-16, %%rsp\n\t"
			 "sub $256, %%rsp\n\t"
			 "push $7\n\t"
			 "call *%%rax\n\t"
			 "mov %%rbx, %%rsp"
			 : "=a"(result)
			 : "a"(realigned), "D"(1), "S"(2), "d"(3), "c"(4)
			 : "rbx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
			   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
			   "xmm15");
	return result;
}

#endif
