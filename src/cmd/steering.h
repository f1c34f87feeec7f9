/*
 * Options, the PID and the exit status of the verbs that talk to a session.
 *
 * Callers: status.c, set.c, mark.c, snapshot.c, detach.c, load.c.  Context: host.
 */
#ifndef CMD_STEERING_H
#define CMD_STEERING_H

#include <getopt.h>
#include <stdbool.h>
#include <sys/types.h>

#include <calltap/diag.h>
#include <host/remote/remote.h>

enum { STEERING_HELP = 'h', STEERING_JSON = 256, STEERING_INSTANCE, STEERING_OWN };

#define STEERING_OPTIONS                                                                                               \
	{                                                                                                              \
		"help", no_argument, NULL, STEERING_HELP                                                               \
	}

/* For verbs that take one of a session's instances. */
#define STEERING_OF_INSTANCE                                                                                           \
	{                                                                                                              \
		"instance", required_argument, NULL, STEERING_INSTANCE                                                 \
	}

struct steering {
	const char *verb, *help;
	const char *instance; /* NULL = the session itself */
	struct calltap_diag diag;
	bool json;
	bool untraced; /* the process need not be traced */
	bool done;     /* --help was answered */
};

void steering_init(struct steering *steering, const char *verb, const char *help);
/* Take an option that is not the verb's own, as getopt_long() returned it; 0 or -EINVAL with diag. */
int steering_option(struct steering *steering, int option, char **argv) __attribute__((warn_unused_result));
/* Take the next word as a PID and move optind behind it. -EINVAL: there is none, or it is no PID. */
int steering_pid(struct steering *steering, pid_t *pid, int argc, char **argv) __attribute__((warn_unused_result));
/* No word may follow. */
int steering_no_more(struct steering *steering, int argc, char **argv) __attribute__((warn_unused_result));
/* Ask the session of a target, or its instance that was named; the caller frees *answer. */
int steering_ask(struct steering *steering, pid_t pid, const struct remote_request *request, char **answer)
	__attribute__((warn_unused_result));
/* steering_ask() on a connection that is there. */
int steering_ask_at(struct steering *steering, int socket, const struct remote_request *request, char **answer)
	__attribute__((warn_unused_result));
/* Print a session's answer, as lines. */
void steering_print(const char *answer);
/* Print the error, if any; returns the exit status. */
int steering_close(struct steering *steering, int err);

#endif
