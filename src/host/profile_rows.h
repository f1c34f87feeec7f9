/*
 * Functions and what was counted of their calls so far, by the tracer `profile` (host/hook/profile.h) or out of records
 * (host/view/tally.h); view/top.h shows them.
 *
 * Callers: those three, and the command `top`.  Context: host.
 */
#ifndef HOST_PROFILE_ROWS_H
#define HOST_PROFILE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#define PROFILE_NONE UINT32_MAX

/* A function, or a caller of the watched one; times in ns. */
struct profile_row {
	uint32_t function;  /* function id; PROFILE_NONE for a caller that is not traced */
	const char *name;   /* demangled, safe to print; never NULL */
	const char *object; /* last part of its file's path */
	uint32_t running;   /* threads that are in the function now */
	uint64_t calls;	    /* calls that have ended, since the start or the last reset */
	uint64_t total_ns;  /* of outermost calls */
	uint64_t self_ns;
	uint64_t avg_ns, max_ns;
	bool measured; /* by profile_measure(): p50_ns and p99_ns hold, off by an eighth at most */
	uint64_t p50_ns, p99_ns;
	/*
	 * The times are estimates: 95 of 100 are no farther off than their errors.  p50_ns and p99_ns are up to span_ns
	 * off, but for late ticks; max_ns is up to max_error_ns off.
	 */
	bool estimated;
	uint64_t total_error_ns, self_error_ns, span_ns, max_error_ns;
	double calls_rate, self_rate; /* calls a second and self seconds a second, since the reading before */
};

struct profile_totals {
	uint32_t processes, threads; /* processes and threads that are alive and have made traced calls */
	uint32_t functions;	     /* traced functions */
	uint64_t beyond;	     /* calls of functions that came when the tables were full */
	uint64_t vanished;	     /* calls that ended in a way that does not tell their function */
	uint64_t lost;		     /* records that were lost on the way to who counts them */
	bool estimated;		     /* the rows' times are estimates */
	double seconds;		     /* between the last two readings */
};

#endif
