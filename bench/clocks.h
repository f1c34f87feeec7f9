/*
 * The loops of the benchmarks' programs around the clock, which other figures stand beside, and the attributes of
 * functions that are to carry no site.
 *
 * Included by leaf.c, handled.c and valued.c.
 */
#ifndef BENCH_CLOCKS_H
#define BENCH_CLOCKS_H

#include <stdint.h>
#include <time.h>

#include <native.h>

#define UNTRACED __attribute__((noinline, no_instrument_function))
#if defined(__clang__)
#define NO_SITE __attribute__((patchable_function_entry(0), xray_never_instrument))
#else
#define NO_SITE __attribute__((patchable_function_entry(0, 0)))
#endif

static volatile uint64_t sink;

UNTRACED NO_SITE static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

UNTRACED NO_SITE static void run_clock1(long calls)
{
	uint64_t total = 0;

	while (calls--)
		total += native_clock();
	sink += total;
}

UNTRACED NO_SITE static void run_clock2(long calls)
{
	uint64_t total = 0;

	while (calls--) {
		total += native_clock();
		total += native_clock();
	}
	sink += total;
}

#endif
