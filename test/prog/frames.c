/*
 * Frames of odd sizes and positions: large ones, alloca, arrays of variable length, aligned further than the stack is,
 * realigned on entry, and a callee that is entered with the stack at 8 modulo 16.
 */
#include <alloca.h>
#include <stdint.h>

#include "truth.h"

TRACED static int touch(volatile char *memory, long size)
{
	TRUTH();
	for (long i = 0; i < size; i += 4096)
		memory[i] = (char)(i >> 12);
	return memory[0] + memory[size - 1 & ~4095L];
}

TRACED static int takes(long size, int depth)
{
	TRUTH();
	volatile char *memory = alloca(size);
	int sum = touch(memory, size);

	return depth ? sum + takes(size, depth - 1) : sum;
}

TRACED static int fixed(int depth)
{
	TRUTH();
	volatile char memory[3 << 19];

	return touch(memory, sizeof(memory)) + (depth ? fixed(depth - 1) : takes(100, 1));
}

TRACED static int variable(int n)
{
	TRUTH();
	int values[n], sum = 0;

	for (int i = 0; i < n; i++)
		values[i] = touch((volatile char *)&values[i], sizeof(values[i])) + i;
	for (int i = 0; i < n; i++)
		sum += values[i];
	return n > 1 ? sum + variable(n / 2) : sum;
}

TRACED static int aligned(int depth)
{
	TRUTH();
	_Alignas(4096) char page[64];
	_Alignas(64) char line[64];

	page[0] = line[0] = (char)depth;
	touch(page, sizeof(page));
	return (depth ? aligned(depth - 1) : 0) + (int)((uintptr_t)page % 4096 + (uintptr_t)line % 64);
}

__attribute__((force_align_arg_pointer)) TRACED int realigned(int a, int b, int c, int d, int e, int f, int g)
{
	TRUTH();
	_Alignas(32) char line[32];

	touch(line, sizeof(line));
	return (int)((uintptr_t)line % 32) + a + b + c + d + e + f + g;
}

/* As an old compiler or another language would call it. */
UNTRACED __attribute__((noinline)) static int from_odd_stack(void)
{
	int result;

	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "and $-16, %%rsp\n\t"
			 "sub $256, %%rsp\n\t"
			 "push $7\n\t"
			 "call realigned\n\t"
			 "mov %%rbx, %%rsp"
			 : "=a"(result)
			 : "D"(1), "S"(2), "d"(3), "c"(4), "r"((long)0)
			 : "rbx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
			   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
			   "xmm15");
	return result;
}

int main(void)
{
	TRUTH();
	printf("small %d, large %d\n", takes(10, 3), takes(1 << 20, 2));
	printf("huge %d, then %d\n", takes(2500000, 1), takes(10, 2));
	printf("fixed %d, variable %d\n", fixed(2), variable(9));
	printf("aligned %d\n", aligned(3));
	from_odd_stack();
	return 0;
}
