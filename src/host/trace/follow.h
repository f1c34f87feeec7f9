/*
 * Reading a trace file while it is being written, to show events as they come.
 *
 * Caller: the command `live`.  Context: host; the file is as untrusted as any trace file.  The file lies in memory:
 * parts that were read are punched out of it, so that it does not grow.  Chunks that were read and whose events nobody
 * has asked for yet are bounded, too.
 *
 * Events come in the order of time over all threads: the writer (drain.c with record_options.follow) reads all rings in
 * rounds, and ends each round with a clock sample of its beginning; records older than the sample before the last one
 * are complete.  A program thread that is interrupted for longer between a clock read and its record makes a record
 * that comes late.
 */
#ifndef HOST_TRACE_FOLLOW_H
#define HOST_TRACE_FOLLOW_H

#include "trace.h"

struct trace_follow;

/*
 * Follow fd, which stays the caller's and may be empty yet.  Records are passed over while queued_max bytes of chunks
 * are queued.
 */
int trace_follow_create(struct trace_follow **out, int fd, uint64_t queued_max) __attribute__((warn_unused_result));
void trace_follow_destroy(struct trace_follow *follow);

/* Read the chunks that have come.  0, or -errno: the file makes no sense from here on, or there is no memory. */
int trace_follow_poll(struct trace_follow *follow) __attribute__((warn_unused_result));
/* Hand out no events later than that, until the file is complete; UINT64_MAX = no limit. */
void trace_follow_limit(struct trace_follow *follow, uint64_t ticks);
/* The file is complete: hand out all events that are left. */
void trace_follow_finish(struct trace_follow *follow);
/* Pass over all that is queued. */
void trace_follow_pass_over(struct trace_follow *follow);
/* The trace with its tables so far, which grow with each poll; NULL before the file's head and first INFO chunk. */
const struct trace *trace_follow_trace(const struct trace_follow *follow);
/* The next event whose time has come: 1 and *event, 0 = none now. */
int trace_follow_next(struct trace_follow *follow, struct trace_event *event);
/* The time up to which all events have been handed out, when trace_follow_next() has none; 0 = not known yet. */
uint64_t trace_follow_ticks(const struct trace_follow *follow);
/* Records of a thread that are known to be lost, or were passed over: LOST events tell of them, maybe later. */
uint64_t trace_follow_lost(const struct trace_follow *follow, uint32_t thread);
/* Records that were passed over; LOST events stand for those for which the queue had no room. */
uint64_t trace_follow_passed_over(const struct trace_follow *follow);

#endif
