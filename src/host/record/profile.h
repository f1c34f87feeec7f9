/*
 * What the tracer `profile` has counted so far, read while it goes on.
 *
 * Callers: the command `top`, which reads a session that another thread runs;
 * inside of this room arena.c and drain.c.  Context: host.  The tables are the
 * target's to scribble on: whatever is in there makes wrong figures, and
 * nothing else.
 */
#ifndef HOST_RECORD_PROFILE_H
#define HOST_RECORD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process;
struct record_live;
struct session;

#define PROFILE_NONE UINT32_MAX

/* A function, or a caller of the watched one; times in ns. */
struct profile_row {
	uint32_t function;  /* its id; of callers: PROFILE_NONE when it is not traced */
	const char *name;   /* demangled, safe to print; never NULL */
	const char *object; /* last part of its file's path */
	uint32_t running;   /* threads that are in it now */
	uint64_t calls;	    /* that have ended, since the start or the last reset */
	uint64_t total_ns;  /* outermost calls */
	uint64_t self_ns;
	uint64_t avg_ns, max_ns;
	bool measured; /* by profile_measure(): these hold, off by an eighth at most: */
	uint64_t p50_ns, p99_ns;
	double calls_rate, self_rate; /* since the reading before: calls a second, and seconds of self time a second */
};

struct profile;

int profile_create(struct profile **out) __attribute__((warn_unused_result));
void profile_destroy(struct profile *profile);

/*
 * Read the tables of all threads.  0; -ESRCH: nothing is recorded (yet, or any
 * more: what was read last stays); -ENOMEM.
 */
int profile_read(struct profile *profile, struct record_live *live) __attribute__((warn_unused_result));
/*
 * Fill in the percentiles of those rows that have none yet.  The same errors; after -ESRCH they
 * are those of the last reading of each function.
 */
int profile_measure(struct profile *profile, struct record_live *live, struct profile_row *rows, size_t count)
	__attribute__((warn_unused_result));
/* Count from here on. */
int profile_reset(struct profile *profile, struct record_live *live) __attribute__((warn_unused_result));

/* Functions that were called since the start or the last reset, or are running; new rows with each reading. */
struct profile_row *profile_rows(struct profile *profile, size_t *count);
/* Count the callers of this function from the next reading on; PROFILE_NONE = of none.  */
void profile_watch(struct profile *profile, uint32_t function);
/* Those that were seen since then; avg_ns holds, max_ns and percentiles do not. */
struct profile_row *profile_callers(struct profile *profile, size_t *count);

struct profile_totals {
	uint32_t processes, threads; /* that are alive and have made traced calls */
	uint32_t functions;	     /* that are traced */
	uint64_t beyond;	     /* calls of functions that came when the tables were full */
	uint64_t vanished;	     /* calls that ended in a way that does not tell whose they were */
	double seconds;		     /* between the last two readings */
};
struct profile_totals profile_totals(const struct profile *profile);

/*
 * A table's size and its parts.  The file is sparse, so that there is room for
 * what a program loads later.
 */
struct profile_shape {
	uint32_t functions, callers, histograms;
};

/* In a session of the tracer: decide on the shape of its tables, once, before the first arena. */
void profile_shape(struct session *session);
/* A process has ended and its arenas will go: keep their sums. */
int profile_keep(struct session *session, struct process *process) __attribute__((warn_unused_result));

/* Sums of many tables, by function id. */
struct profile_sum {
	uint64_t calls, total, self, max, unwound; /* ticks */
	uint32_t running;
	uint64_t *histogram; /* CALLTAP_PROFILE_BUCKETS; NULL = not asked for, or no calls */
};

struct profile_sums {
	struct profile_sum *items;
	uint32_t count;
	uint64_t beyond, vanished;
	uint32_t threads;
};

void profile_sums_clear(struct profile_sums *sums);

#endif
