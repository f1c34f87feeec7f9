/* Giving up with a message, and the time, for the stress programs. */
#ifndef TEST_STRESS_STRESS_H
#define TEST_STRESS_STRESS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline _Noreturn void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

/* Seconds. */
static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#endif
