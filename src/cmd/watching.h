/*
 * A recording that runs in a thread of its own while the caller shows it.  Of a process that is traced already it is a
 * further instance in that session, whose records the caller reads (instance.h).
 *
 * Callers: top.c, live.c.  Context: host.
 */
#ifndef CMD_WATCHING_H
#define CMD_WATCHING_H

#include <pthread.h>

#include <host/session/record.h>

#include "recording.h"

struct trace;

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
	int done;    /* eventfd: readable when the recording has ended */
	int session; /* connection to the session that the recording is an instance in; -1 = it is a session itself */
	int memory;  /* the instance's file */
	int stop;    /* eventfd: the instance is to end */
	int kept_error; /* standard error, while the program's output is parted; -1 = it is not */
	int ret;	/* the recording's result */
	unsigned stops;
};

int watching_init(struct watching *watching, char **argv) __attribute__((warn_unused_result));
/* Take the words behind the options: PIDs, or (behind "--") a command; EXIT_USAGE after a message. */
int watching_target(struct watching *watching, int argc, char **argv, const char *verb)
	__attribute__((warn_unused_result));
/* Take one process in place of words. */
int watching_take_pid(struct watching *watching, pid_t pid) __attribute__((warn_unused_result));
/*
 * Look whether the process is traced already, once the options are checked.  Then watching->session is the connection
 * to its session, and the caller sets watching->memory to memory for the instance's file.  Of several processes those
 * that are traced already are left out.  The exit status, after a message.
 */
int watching_join(struct watching *watching) __attribute__((warn_unused_result));
/*
 * Make watching->stop, which becomes readable when a signal asks for the end, from watching_take_signals() on.  A
 * session of this process' own has other handlers (session/signals.c), and so has a terminal.  The exit status, after a
 * message.
 */
int watching_make_stop(struct watching *watching) __attribute__((warn_unused_result));
void watching_take_signals(void);
static inline bool watching_joins(const struct watching *watching)
{
	return watching->session >= 0;
}
/* Begin the recording; -errno with a message printed. */
int watching_start(struct watching *watching) __attribute__((warn_unused_result));
/*
 * The program must not write onto what the tool shows: from now on its outputs, where they are this process' terminal
 * or standard output, go to the file, NULL = nowhere, and on a screen its input is empty.  *in and *out are the
 * terminal's, or pipe's, for the tool.  -errno with a message printed.
 */
int watching_part_outputs(struct watching *watching, const char *file, bool screen, int *in, int *out)
	__attribute__((warn_unused_result));
/* Standard error is for messages again. */
void watching_join_error(struct watching *watching);
/* Ask the recording to end; asking again does no harm. */
void watching_stop(struct watching *watching);
/* End the recording; a command gets a moment to end. */
void watching_end(struct watching *watching);
/* True when the recording has ended, by itself or as asked. */
bool watching_ended(const struct watching *watching);
/* An instance's losses are in its file: take them from there, once the recording has ended and all was read. */
void watching_take_losses(struct watching *watching, const struct trace *trace);
/* The recording has ended before it began: take why, without a message.  Another one may be started then. */
int watching_fail(struct watching *watching, struct calltap_diag *diag);
/* Wait for the end, and tell of it.  Returns the exit status: a command's own, if it ended by itself. */
int watching_finish(struct watching *watching);
void watching_clear(struct watching *watching);

#endif
