/*
 * Other calling conventions than the platform's on RISC-V 64, for conventions.c: code that is called by the link
 * register t0, as -msave-restore calls it (the compilers here have no others); values that are wider than two
 * registers, and pairs that lie half in a register.
 */
#ifndef TEST_PROG_CPU_CONVENTIONS_H
#define TEST_PROG_CPU_CONVENTIONS_H

__asm__(".text\n"
	".type by_t0, @function\n"
	"by_t0:\n"
	"	addi	a0, a0, 7\n"
	"	jr	t0\n"
	".size by_t0, . - by_t0\n");

/* The function changes t0 only, so that its caller may keep all values in their registers. */
SIMPLE static long keeps(long x)
{
	register long a0 __asm__("a0") = x;

	__asm__ volatile("call t0, by_t0" : "+r"(a0) : : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "memory");
	return a0;
}

struct wide {
	long a, b, c;
};

/* b is aligned to a pair of registers where there are variable arguments, w is a copy of the caller's. */
TRACED static long by_pairs(char a, __int128 b, struct wide w, int c, __int128 d, long e, __int128 f)
{
	TRUTH();
	return (long)(a + b * 2 + w.c * 3 + c * 4 + d * 5 + e * 6 + f * 7);
}

TRACED static long others(long x)
{
	return keeps(x) + keeps(x + 1);
}

TRACED static void of_this_cpu(void)
{
	TRUTH();
	printf("%ld %ld\n", by_pairs(1, 2, (struct wide){1, 2, 3}, 4, 5, 6, 7), ours(1));
}

#endif
