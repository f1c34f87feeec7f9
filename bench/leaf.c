/*
 * What one call of a tiny function costs, beside one and two clock reads measured in the same process.
 *
 * Prints "leaf NS", "clock1 NS", "clock2 NS": the smallest of several rounds, per call.  The loops themselves carry no
 * site.  `root` is never called: a tree filter on it (-g root) shows what a call outside every chosen tree costs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"

enum { ROUNDS = 7 };

__attribute__((noinline)) int leaf(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

__attribute__((noinline)) int root(int x)
{
	return leaf(x) + 1;
}

UNTRACED NO_SITE static void run_leaf(long calls)
{
	int x = 0;

	while (calls--)
		x = leaf(x);
	sink += x;
}

UNTRACED NO_SITE static double smallest(void (*loop)(long), long calls)
{
	double best = 1e18;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns(), spent;

		loop(calls);
		spent = now_ns() - start;
		best = spent < best ? spent : best;
	}
	return best / calls;
}

UNTRACED NO_SITE int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000000;

	printf("leaf %.3f\n", smallest(run_leaf, calls));
	printf("clock1 %.3f\n", smallest(run_clock1, calls));
	printf("clock2 %.3f\n", smallest(run_clock2, calls));
	return argc > 2 ? root(argc) : 0;
}
