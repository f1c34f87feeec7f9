/*
 * What `calltap top` shows: the tables of the tracer `profile`, in which the target counts; or, where the process is
 * traced already, the records of a further instance, which a thread of this process counts.
 *
 * Caller: top.c.  Context: host.  Functions are those of host/hook/profile.h, and may be called from any thread.
 */
#ifndef CMD_COUNTING_H
#define CMD_COUNTING_H

#include <pthread.h>

#include <host/hook/profile.h>
#include <host/view/tally.h>

struct watching;

struct counting {
	const struct watching *watching;
	struct profile *profile;
	struct tally *tally; /* NULL: the tables are read */
	/* Of the tally: */
	pthread_mutex_t lock;
	pthread_t taker;
	bool takes;
	bool stop;	/* atomic: the taker ends after one more look */
	int take_error; /* -errno: what was counted until then stays */
};

/* The watching, which has not begun, says which of the two it is; -errno. */
int counting_create(struct counting *counting, struct watching *watching) __attribute__((warn_unused_result));
/* The instance has ended: count the rest of its records. */
void counting_finish(struct counting *counting);
void counting_destroy(struct counting *counting);

int counting_read(struct counting *counting) __attribute__((warn_unused_result));
int counting_measure(struct counting *counting, struct profile_row *rows, size_t count)
	__attribute__((warn_unused_result));
int counting_reset(struct counting *counting) __attribute__((warn_unused_result));
void counting_watch(struct counting *counting, uint32_t function);
/* Functions, or callers of the watched one. */
struct profile_row *counting_rows(struct counting *counting, bool callers, size_t *count);
struct profile_totals counting_totals(struct counting *counting);

#endif
