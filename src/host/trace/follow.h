/*
 * Reading a trace file while it is being written, for who shows events as
 * they come.
 *
 * Caller: the command `live`.  Context: host; as untrusted as any trace file.
 * What was read is let go of in the file, which is in memory, so that it does
 * not grow; what is read and not yet asked for is bounded.
 *
 * Events come in the order of time over all threads: the writer (drain.c with
 * record_options.follow) reads all rings in rounds, and ends each with a clock
 * sample of its beginning; what is older than the sample before is complete.
 * A record that its thread was interrupted in for longer than that comes late.
 */
#ifndef HOST_TRACE_FOLLOW_H
#define HOST_TRACE_FOLLOW_H

#include "trace.h"

struct trace_follow;

/*
 * Follow fd (kept by the caller): nothing has to be in there yet.  Records are
 * passed over while queued_max bytes of the file wait to be asked for.
 */
int trace_follow_create(struct trace_follow **out, int fd, uint64_t queued_max) __attribute__((warn_unused_result));
void trace_follow_destroy(struct trace_follow *follow);

/* Read what has come.  0, or -errno: the file makes no sense from here on, or there is no memory. */
int trace_follow_poll(struct trace_follow *follow) __attribute__((warn_unused_result));
/* Nothing more will come: hand out all there is. */
void trace_follow_finish(struct trace_follow *follow);
/* The tables so far: NULL before the file has told what was recorded.  They grow with each poll. */
const struct trace *trace_follow_trace(const struct trace_follow *follow);
/* The next event whose time has come: 1 and *event, 0 = none now. */
int trace_follow_next(struct trace_follow *follow, struct trace_event *event);
/* Up to when all events have been handed out, once there is no next one; 0 = not known yet. */
uint64_t trace_follow_ticks(const struct trace_follow *follow);
/* Records that were passed over as nobody asked for them in time; LOST events stand for them. */
uint64_t trace_follow_passed_over(const struct trace_follow *follow);

#endif
