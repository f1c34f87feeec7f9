/*
 * The target's clock as the tool sees it: read by itself where the target runs
 * on this very CPU; else, under an emulator, put together from what agents
 * tell (struct calltap_msg_clock_told), by a line of least squares.
 *
 * Callers: the session's server and drainer.  Context: host; what agents
 * tell is checked.
 */
#ifndef HOST_TARGET_CLOCK_H
#define HOST_TARGET_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/file.h>

uint64_t clock_now_ns(void); /* CLOCK_MONOTONIC */
/* This CPU's counter and the time. */
struct calltap_file_clock clock_sample(void);
double clock_ticks_per_ns(unsigned calibrate_ms); /* of this CPU's counter */

/* Pairs of ticks and nanoseconds of another's counter; all zero = none yet. */
struct clock_line {
	uint64_t hz; /* what the CPU says, 0 = nothing */
	uint64_t first_ticks, first_ns, last_ticks, last_ns;
	uint32_t count;
	double mean_ticks, mean_ns;	/* relative to the first pair */
	double spread_ns, spread_ticks; /* sums of (ns - mean)^2 and of (ns - mean)(ticks - mean) */
};

/* False, and nothing changes: both do not grow. */
bool clock_line_add(struct clock_line *line, uint64_t ticks, uint64_t ns) __attribute__((warn_unused_result));
/* Ticks in a nanosecond, 0 = not known yet. */
double clock_line_rate(const struct clock_line *line);
/* The counter at that time; the last pair's ticks when the rate is not known, 0 without any pair. */
uint64_t clock_line_ticks(const struct clock_line *line, uint64_t ns);

#endif
