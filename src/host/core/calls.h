/*
 * Writing calls that are known without their records (struct history_call) into the trace of a flight recorder.
 *
 * Caller: history.c, thread by thread.  Context: host.  The records are untrusted, and so are the calls' times.
 */
#ifndef HOST_CORE_CALLS_H
#define HOST_CORE_CALLS_H

#include "history.h"
#include "open.h"

#define CALLS_OPEN_MAX 64 /* calls that are open at the beginning of a thread's records */

struct calls_open {
	struct history_call *call;
	uint64_t depth; /* recorded calls that are open within the call */
	bool ended;	/* the record of the call's end is there */
	bool hidden;	/* readers would take another call's record for this call's end */
};

/* A thread's records in a ring, as calls_see() has seen them. */
struct calls_thread {
	uint32_t process, tid;
	uint64_t first_ticks, last_ticks;
	bool seen;
	struct calls_open open[CALLS_OPEN_MAX];
	uint32_t count;
	const struct open_calls *told; /* calls that the target has told of, open when the records begin */
};

/* True if there are calls of this thread that may lack records. */
bool calls_any(const struct history *history, uint32_t process, uint32_t tid);
/* Look through a DATA payload of the thread's.  Call it with all of them, in order. */
void calls_see(struct history *history, struct calls_thread *thread, const void *payload, size_t size);
/*
 * Write the missing beginnings, and those of `told` calls, as the thread's DATA chunk *number, which is then counted
 * up.
 */
int calls_write_before(struct history *history, struct calls_thread *thread, uint32_t index, uint64_t *number)
	__attribute__((warn_unused_result));
/* Write, behind all records of a thread, the end of a wanted call that the thread has not recorded yet. */
int calls_write_after(struct history *history, struct calls_thread *thread, uint32_t index, uint64_t *number)
	__attribute__((warn_unused_result));
/* Write the wanted calls that found no place among their thread's records, each as a thread of its own. */
int calls_write_rest(struct history *history) __attribute__((warn_unused_result));

#endif
