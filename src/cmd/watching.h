/*
 * A recording that runs in a thread of its own while the caller shows it.
 *
 * Callers: top.c, live.c.  Context: host.
 */
#ifndef CMD_WATCHING_H
#define CMD_WATCHING_H

#include <pthread.h>

#include <host/session/record.h>

#include "recording.h"

struct watching {
	struct recording recording;
	struct record_live *live;
	struct record_result result;
	struct calltap_diag diag;
	char what[128];	    /* "PID 123 (name)", "PID 123 (name) and 2 more", or the command */
	char command[4096]; /* words of a process that runs already */
	char *words[2];
	pid_t *pids; /* NULL = there is a command */
	size_t pid_count;
	char *left_out; /* sentences about processes that are not traced, told at the end; NULL = none */
	pthread_t thread;
	bool runs;
	int done; /* eventfd: readable when the recording has ended */
	int ret;  /* the recording's result */
	unsigned stops;
};

int watching_init(struct watching *watching, char **argv) __attribute__((warn_unused_result));
/* Take the words behind the options: PIDs, or (behind "--") a command; EXIT_USAGE after a message. */
int watching_target(struct watching *watching, int argc, char **argv, const char *verb)
	__attribute__((warn_unused_result));
/* Begin the recording; -errno with a message printed. */
int watching_start(struct watching *watching) __attribute__((warn_unused_result));
/* Ask the recording to end; asking again does no harm. */
void watching_stop(struct watching *watching);
/* True when the recording has ended, by itself or as asked. */
bool watching_ended(const struct watching *watching);
/* Wait for the end, and tell of it.  Returns the exit status: a command's own, if it ended by itself. */
int watching_finish(struct watching *watching);
void watching_clear(struct watching *watching);

#endif
