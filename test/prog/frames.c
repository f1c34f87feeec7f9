/*
 * Frames of odd sizes and positions: large ones, alloca, arrays of variable length, aligned further than the stack is,
 * realigned on entry, and a callee that is called in an odd way.
 */
#include <alloca.h>
#include <stdint.h>

#include "calls.h"
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

CPU_REALIGNS TRACED static int realigned(int a, int b, int c, int d, int e, int f, int g)
{
	TRUTH();
	_Alignas(32) char line[32];

	touch(line, sizeof(line));
	return (int)((uintptr_t)line % 32) + a + b + c + d + e + f + g;
}

int main(void)
{
	TRUTH();
	printf("small %d, large %d\n", takes(10, 3), takes(1 << 20, 2));
	printf("huge %d, then %d\n", takes(2500000, 1), takes(10, 2));
	printf("fixed %d, variable %d\n", fixed(2), variable(9));
	printf("aligned %d\n", aligned(3));
	cpu_call_oddly(realigned);
	return 0;
}
