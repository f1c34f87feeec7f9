/*
 * The time: by the clock that nobody sets (CLOCK_MONOTONIC), for waiting, and by the clock that people read
 * (CLOCK_REALTIME).
 *
 * Callers: every room.  Context: host, and libcalltap.
 */
#ifndef HOST_NOW_H
#define HOST_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return now_of(CLOCK_MONOTONIC);
}

static inline int64_t now_ms(void)
{
	return (int64_t)(now_ns() / 1000000u);
}

static inline uint64_t now_real_ns(void)
{
	return now_of(CLOCK_REALTIME);
}

#endif
