/*
 * What the tracer `profile` has counted so far, read while it goes on.
 *
 * Callers: the command `top`, which reads a session that another thread runs;
 * inside of this room arena.c and drain.c.  Context: host.  The tables are the
 * target's to scribble on: whatever is in there makes wrong figures, and
 * nothing else.
 */
#ifndef HOST_HOOK_PROFILE_H
#define HOST_HOOK_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <host/profile_rows.h>

struct instance;
struct record_live;
struct share;

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
/* The callers that were seen since profile_watch(); avg_ns is right, max_ns and percentiles are not known. */
struct profile_row *profile_callers(struct profile *profile, size_t *count);

struct profile_totals profile_totals(const struct profile *profile);

/*
 * A table's size and its parts.  The file is sparse, so that there is room for
 * what a program loads later.
 */
struct profile_shape {
	uint32_t functions, callers, histograms;
};

/* In an instance of the tracer: decide on the shape of its tables, once, before the first arena. */
void profile_shape(struct instance *instance);
/* A process has ended and its arenas will go: keep their sums. */
int profile_keep(struct share *share) __attribute__((warn_unused_result));

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
