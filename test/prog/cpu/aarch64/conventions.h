/*
 * Other calling conventions than the platform's on AArch64, for conventions.c: the vector one, whose callees keep v8 to
 * v23 whole, and clang's preserve_most.
 */
#ifndef TEST_PROG_CPU_CONVENTIONS_H
#define TEST_PROG_CPU_CONVENTIONS_H

#include <arm_neon.h>

/* Not in the log: its symbol has the mark of scalable vectors' functions, too, which are not traced. */
__attribute__((aarch64_vector_pcs)) TRACED static float64x2_t by_vectors(float64x2_t a, float64x2_t b)
{
	return a + b * 2;
}

__attribute__((aarch64_vector_pcs)) SIMPLE static long keeps(long x)
{
	__asm__ volatile("" : "+r"(x)::"x1", "x2", "x9", "x10", "x15", "x16", "x17", "v0", "v7", "v8", "v31");
	return x + 7;
}

#if defined(__clang__)
__attribute__((preserve_most)) SIMPLE static long most(long x)
{
	__asm__ volatile("" : "+r"(x)::"x1", "x2", "x9", "x10", "x14", "x15");
	return x + 11;
}
#else
#define most(x) keeps(x)
#endif

/* Values are alive in v8 to v23 over the calls. */
TRACED static long others(long x)
{
	double a = (double)x, b = a * 2, c = a * 3, d = a * 4, e = a * 5, f = a * 6, g = a * 7, h = a * 8;

	x = most(x) + keeps(x + 1) + most(x + 2);
	return x + (long)(a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8);
}

TRACED static void of_this_cpu(void)
{
	TRUTH();
	float64x2_t sum = by_vectors((float64x2_t){1, 2}, (float64x2_t){3, 4});

	/* gcc 12 ties the table of a whole file to its first function: with --gc-sections that must be in use. */
	printf("%.0f %.0f %ld\n", sum[0], sum[1], ours(1));
}

#endif
