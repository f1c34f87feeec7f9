/*
 * `calltap attach`, `live` and `top` of a process that is traced already: a further instance in that session.
 * Callers: attach.c, watching.c.  Context: host.
 */
#ifndef CMD_INSTANCE_H
#define CMD_INSTANCE_H

#include "recording.h"

/* The time that a session which is ending may take. */
#define INSTANCE_ENDING_STEP_NS 20000000
#define INSTANCE_ENDING_STEPS	250
#define INSTANCE_TURN_STEPS	300

/*
 * Connect to the session that traces the process: 0 and *socket.  -ESRCH: there is none; -EPIPE: there was one.  A
 * session that ends before it has answered counts as none: its tool was killed a moment ago, and the process that
 * finishes its last stop still has its socket; or it is just detaching.
 */
int instance_find(pid_t pid, int *socket) __attribute__((warn_unused_result));
/*
 * The same, by a command that is going to attach to the process where there is no session: it waits for others that are
 * about to, or that are ending, for some seconds.
 */
int instance_find_in_turn(pid_t pid, int *socket) __attribute__((warn_unused_result));
/*
 * Take processes that are traced already out of several, and tell of each: an instance is a matter of one session.
 * Returns how many are left, after a message that none is.
 */
size_t instance_leave_out(pid_t *pids, size_t count, const char *verb) __attribute__((warn_unused_result));
/*
 * Have the session on that connection make an instance of this recording, and wait for a signal, the end of its
 * duration, or the instance's end.  Returns the exit status, or -EPIPE: the session ended before it made one. name:
 * NULL = the session chooses it. named_output: the user has chosen the file.
 */
int instance_attach(struct recording *recording, int socket, const char *name, bool named_output)
	__attribute__((warn_unused_result));
/* Refuse options that a further instance cannot have; EXIT_USAGE after a message. */
int instance_check(const struct recording *recording) __attribute__((warn_unused_result));
/*
 * As instance_attach(), with memory as the trace file, which the caller reads meanwhile (trace/follow.h), until the
 * descriptor `stop` is readable or the instance has ended.  *begun: there was an instance.  0, or -errno with diag.
 */
int instance_watch(struct recording *recording, int socket, int memory, int stop, bool *begun,
		   struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
