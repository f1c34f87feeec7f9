/*
 * Counts of calls out of the records of a trace that grows: the rows of `calltap top` where it is a further instance.
 *
 * Caller: the command `top` (cmd/counting.c).  Context: host; the file is as untrusted as any trace file.  One thread
 * takes records (tally_take()), another one reads what was counted: the caller has a lock for both.  A table of the
 * tracer `profile` (host/hook/profile.h) counts in the target; this counts in the tool, and what was lost on the way
 * is missing.
 */
#ifndef HOST_VIEW_TALLY_H
#define HOST_VIEW_TALLY_H

#include <stddef.h>

#include <host/profile_rows.h>

struct tally;
struct trace;

/* Count what is written to fd, which stays the caller's. */
int tally_create(struct tally **out, int fd) __attribute__((warn_unused_result));
void tally_destroy(struct tally *tally);

/* Count the records that have come.  last: the file is complete.  0 or -errno, and what was counted stays. */
int tally_take(struct tally *tally, bool last) __attribute__((warn_unused_result));
/* Begin a reading; -ESRCH: the file says nothing yet. */
int tally_read(struct tally *tally) __attribute__((warn_unused_result));
/* Count from here on. */
void tally_reset(struct tally *tally);
/* Count the callers of this function from here on; PROFILE_NONE = of none. */
void tally_watch(struct tally *tally, uint32_t function);

/*
 * Functions that were called since the start or the last reset, or run now; NULL = no memory.  Rows are valid until the
 * next call of this or tally_callers().  Percentiles are in place: rows need no profile_measure().
 */
struct profile_row *tally_rows(struct tally *tally, size_t *count);
/* The traced functions that the watched one was called from since tally_watch(); "-" stands for none. */
struct profile_row *tally_callers(struct tally *tally, size_t *count);
struct profile_totals tally_totals(const struct tally *tally);
/* The trace so far; NULL = the file says nothing yet. */
const struct trace *tally_trace(const struct tally *tally);

#endif
