/*
 * The target's clock as the host sees it: the same counter.  Context: host.
 */
#include <time.h>
#include <x86intrin.h>

#include "session.h"

#define TRIES 5

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

/* The best of a few tries: the one whose two counter reads lie closest. */
struct calltap_file_clock clock_sample(void)
{
	struct calltap_file_clock best = {0};
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), mono = now_ns(CLOCK_MONOTONIC), after = __rdtsc();

		if (after - before >= best_width)
			continue;
		best_width = after - before;
		best.ticks = before + best_width / 2;
		best.mono_ns = mono;
		best.real_ns = now_ns(CLOCK_REALTIME);
	}
	return best;
}

double clock_ticks_per_ns(unsigned calibrate_ms)
{
	struct calltap_file_clock a = clock_sample(), b;
	struct timespec pause = {0, (long)calibrate_ms * 1000000};

	nanosleep(&pause, NULL);
	b = clock_sample();
	return (double)(b.ticks - a.ticks) / (double)(b.mono_ns - a.mono_ns);
}
