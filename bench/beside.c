/*
 * What calls of tiny functions cost by who records them: a session, a further instance of it, both, or nobody.
 *
 * Prints the functions' addresses, "mine theirs shared". For each line that it reads it measures all of them and prints
 * "mine NS theirs NS shared NS clock2 NS", each the smallest of several rounds that take turns, per call. The loops
 * carry no site.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <native.h>

#define NO_SITE __attribute__((noinline, patchable_function_entry(0, 0)))

enum { ROUNDS = 40, KINDS = 4 };

static volatile uint64_t sink;

#define LEAF(name)                                                                                                     \
	__attribute__((noinline)) int name(int x)                                                                      \
	{                                                                                                              \
		__asm__ volatile("" : "+r"(x));                                                                        \
		return x + 1;                                                                                          \
	}                                                                                                              \
	NO_SITE static void run_##name(long calls)                                                                     \
	{                                                                                                              \
		int x = 0;                                                                                             \
                                                                                                                       \
		while (calls--)                                                                                        \
			x = name(x);                                                                                   \
		sink += x;                                                                                             \
	}

LEAF(mine)
LEAF(theirs)
LEAF(shared)

NO_SITE static void run_clock2(long calls)
{
	uint64_t total = 0;

	while (calls--) {
		total += native_clock();
		total += native_clock();
	}
	sink += total;
}

NO_SITE static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

NO_SITE static void measure(long calls)
{
	static void (*const loops[KINDS])(long) = {run_mine, run_theirs, run_shared, run_clock2};
	static const char *const names[KINDS] = {"mine", "theirs", "shared", "clock2"};
	double best[KINDS] = {1e18, 1e18, 1e18, 1e18};

	for (int i = 0; i < ROUNDS * KINDS; i++) {
		double start = now_ns(), spent;

		loops[i % KINDS](calls);
		spent = (now_ns() - start) / calls;
		if (spent < best[i % KINDS])
			best[i % KINDS] = spent;
	}
	for (int i = 0; i < KINDS; i++)
		printf("%s %.3f%c", names[i], best[i], i + 1 < KINDS ? ' ' : '\n');
	fflush(stdout);
}

NO_SITE int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 200000;
	char line[16];

	printf("%#lx %#lx %#lx\n", (unsigned long)mine, (unsigned long)theirs, (unsigned long)shared);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		measure(calls);
	return 0;
}
