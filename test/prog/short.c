/*
 * Functions of a few bytes, three times, far apart: on RISC-V they have no room for a jump to a block, and neither
 * group reaches an island in another one.  Prints a number that all of their results go into.
 */
#include <stdio.h>

#define ROUNDS 50

#if defined(__riscv)
#define APART __asm__(".text\n.zero 1400000")
#else
#define APART __asm__(".text\n.p2align 4")
#endif

typedef long function(long);

/* next: a loop begins within the bytes of a long jump, on some CPUs. long: it has room for more than a jump. */
#define GROUP(group)                                                                                                   \
	__attribute__((noinline)) long tiny_one_##group(long x)                                                        \
	{                                                                                                              \
		return 1;                                                                                              \
	}                                                                                                              \
	__attribute__((noinline)) long tiny_less_##group(long x)                                                       \
	{                                                                                                              \
		return x - 3;                                                                                          \
	}                                                                                                              \
	__attribute__((noinline)) long tiny_odd_##group(long x)                                                        \
	{                                                                                                              \
		return x * 2 + 1;                                                                                      \
	}                                                                                                              \
	__attribute__((noinline)) long tiny_loop_##group(long x)                                                       \
	{                                                                                                              \
		long sum = 1000;                                                                                       \
                                                                                                                       \
		do {                                                                                                   \
			__asm__ volatile("" : "+r"(sum), "+r"(x));                                                     \
			sum += x--;                                                                                    \
		} while (x > 0);                                                                                       \
		return sum;                                                                                            \
	}                                                                                                              \
	__attribute__((noinline)) long room_##group(long x)                                                            \
	{                                                                                                              \
		volatile long kept[4] = {x, x + 1, x + 2, x + 3};                                                      \
                                                                                                                       \
		return kept[x & 3] + kept[0];                                                                          \
	}

GROUP(a)
APART;
GROUP(b)
APART;
GROUP(c)

#define FUNCTIONS(group) tiny_one_##group, tiny_less_##group, tiny_odd_##group, tiny_loop_##group, room_##group
static function *volatile const functions[] = {FUNCTIONS(a), FUNCTIONS(b), FUNCTIONS(c)};

int main(void)
{
	long sum = 0;

	for (long round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
			sum = sum * 3 + functions[i](round & 7);
	printf("%lx\n", sum);
	return 0;
}
