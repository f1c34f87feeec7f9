/*
 * Calls that are not to be shown, for their results are not what was asked for (CALLTAP_EVENT_VERDICT, abi/record.h).
 *
 * A call's ENTRY is in the trace long before the verdict.  So a cursor of a trace that has verdicts reads its events
 * twice: first it notes which calls are to be left out, two bits for each call of a thread up to the last of them; then
 * it hands on the events of a program that has not made these calls.  Whoever reads by the cursor knows nothing of it.
 *
 * A call without a verdict is shown: it was asked for, or nobody knows (it has no end in the trace, or no result).
 *
 * Caller: cursor.c.  Context: host; the events are as untrusted as any.
 */
#ifndef HOST_TRACE_VERDICTS_H
#define HOST_TRACE_VERDICTS_H

#include <stdbool.h>

#include "trace.h"

struct verdicts;

/* Can the trace have verdicts?  Those that can describe the type. */
bool verdicts_are_in(const struct trace *trace);
int verdicts_create(struct verdicts **out, const struct trace *trace) __attribute__((warn_unused_result));
void verdicts_destroy(struct verdicts *verdicts); /* NULL: nothing is done */
/* Take the next event of the first reading.  0, or -ENOMEM. */
int verdicts_note(struct verdicts *verdicts, const struct trace_event *event) __attribute__((warn_unused_result));
/* The second reading begins.  0, or -ENOMEM. */
int verdicts_begin(struct verdicts *verdicts) __attribute__((warn_unused_result));
/* Take its next event: 1: it is to be handed on, as it is now; 0: it is left out; -ENOMEM. */
int verdicts_pass(struct verdicts *verdicts, struct trace_event *event) __attribute__((warn_unused_result));

#endif
