/*
 * `--time adaptive`: which functions' calls have no times in the trace, and the tick by which their times are bounded.
 *
 * A function is timed until it is known to be called often and to be short.  The drainer shows the records as they
 * come; what is decided stands in a file that the targets' probes read (abi/times.h).  doc/design/clock.md has the
 * argument.
 *
 * Callers: the session, under its lock, and its drainer.  Context: host.
 */
#ifndef HOST_BRIEF_BRIEF_H
#define HOST_BRIEF_BRIEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <host/session/record.h>

#include "ticker.h"

struct brief;
struct calltap_board;
struct clock_line;
struct brief_calls; /* the calls that are open in a ring */
struct target;
struct trace_memory;
struct trace_writer;

struct brief_options {
	const struct record_known *known; /* in the order of symbols, as long as the brief lives; or NULL */
	size_t known_count;
	uint32_t small;	  /* bytes of a function that is thought to be short at first */
	uint64_t tick_ns; /* from one tick to the next, less than a second */
	bool sampling;	  /* no function is brief: the tick is the clock of tracer profile (ticker.h) */
	bool base_only;	  /* no function of the first instance's is brief: further instances alone have such */
	uint32_t every;	  /* of a brief function's calls, one in so many has its times */
};

/* -errno: there is no memory. */
int brief_create(struct brief **out, const struct brief_options *options) __attribute__((warn_unused_result));
/*
 * The choice of a further instance, with that set, beside the session's (base), which has begun to tick and goes on
 * longer.  All functions have times at first.  -ENOMEM.
 */
int brief_create_further(struct brief **out, struct brief *base, uint32_t set, uint64_t short_ns)
	__attribute__((warn_unused_result));
/*
 * Begin to tick, before any target runs.  A call that takes less than short_ns is short.  rate: the ticks in a
 * nanosecond of the clock that the targets read; 0: they are emulated, and `line` becomes their clock's, which only
 * callers of this room's functions change.  board: where the targets tell that they look at the tick (abi/ring.h); it
 * lasts longer than the brief; NULL: the tick never stands still.  -errno: there is no memory, or no thread.
 */
int brief_start(struct brief *brief, uint64_t short_ns, double rate, const struct clock_line *line,
		struct calltap_board *board) __attribute__((warn_unused_result));
/* NULL is fine.  No target's probes run any more, or nothing that they write is read. */
void brief_destroy(struct brief *brief);
/* A function of so many bytes may be brief, 0 = not known: a small one begins so, or one that is known to be short. */
void brief_begin(struct brief *brief, uint32_t function, uint32_t bytes, const char *symbol);
/* Send the file to a target that gets its plans after it.  NULL: there is none to send. */
int brief_welcome(const struct brief *brief, struct target *target) __attribute__((warn_unused_result));
/*
 * Look at a whole sub-buffer's words, in the order of its ring; ticks: its head's time.  *calls is the ring's, NULL at
 * first, for free().
 */
void brief_look(struct brief *brief, struct brief_calls **calls, const uint64_t *words, size_t count, uint64_t ticks);
/* Records that came in between were not looked at. */
void brief_skip(struct brief_calls *calls);
/*
 * The session is a flight recorder: memory, which lasts longer than the brief, is to tell of late ticks.  Call it
 * before there is a target, whose clock is this CPU's counter.  -ENOMEM.
 */
int brief_keep(struct brief *brief, const struct trace_memory *memory) __attribute__((warn_unused_result));
/* Of a flight recorder alone: write the late ticks up to this moment to the memory that brief_keep() was given. */
void brief_tell(struct brief *brief);
/* Write a TICKS chunk to a snapshot, with all late ticks that are kept.  -errno as trace_writer_chunk(). */
int brief_write_kept(struct brief *brief, struct trace_writer *writer) __attribute__((warn_unused_result));
/* Write the TICKS chunk with what is new.  -errno as trace_writer_chunk(). */
int brief_write(struct brief *brief, struct trace_writer *writer) __attribute__((warn_unused_result));
/*
 * From now on all calls have their times (exact), or those of brief functions have none again.  The choice goes on in
 * either case, so that it is up to date when it counts.
 */
void brief_set_exact(struct brief *brief, bool exact);
/* What takes less is short from now on. */
void brief_set_short(struct brief *brief, uint64_t short_ns);
/* Of the session's: of a brief function's calls one in so many has its times from now on. */
void brief_set_every(struct brief *brief, uint32_t every);
/* Called in each of the drainer's rounds: the tick goes on if it stands still, and a target looks at it. */
void brief_look_awake(struct brief *brief);
/* How long ticks stay. */
struct ticker_stays brief_stays(const struct brief *brief);
/* How often a function has become brief, or is so no longer, by what was looked at. */
uint64_t brief_changes(const struct brief *brief);
/* The further instances for which the function is brief now: bit N - 1 is of set N. */
uint32_t brief_further(const struct brief *brief, uint32_t function);
/* Functions whose calls are brief now. */
uint32_t brief_count(const struct brief *brief);

#endif
