/*
 * Measuring the cost of a call: functions that do nothing, a loop of calls, and the smallest of many measurements.
 *
 * Callers: dispatch.c and timed.c.
 */
#ifndef TEST_STRESS_COSTS_H
#define TEST_STRESS_COSTS_H

#include "../unit/agent/timed.h"
#include "stress.h"

#define CALLS 200000u /* in a measurement */

#define LEAF(name)                                                                                                     \
	TIMED_SITE static int name(int x)                                                                              \
	{                                                                                                              \
		__asm__ volatile("" : "+r"(x));                                                                        \
		return x + 1;                                                                                          \
	}

/* Two clock reads: the price of a record's two times. */
static int clocks(int x)
{
	return x + (int)(arch_clock() + arch_clock());
}

static volatile int sink;

/* Nanoseconds a call; inlined, so that the loop calls it as the bench's do. */
static inline __attribute__((always_inline)) double measure(int (*function)(int))
{
	double start = now();
	int x = 0;

	for (uint32_t i = 0; i < CALLS; i++)
		x = function(x);
	sink += x;
	return (now() - start) * 1e9 / CALLS;
}

static inline void keep(double *least, double value)
{
	if (!*least || value < *least)
		*least = value;
}

#endif
