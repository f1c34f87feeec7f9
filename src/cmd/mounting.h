/*
 * A recording and its tree of files, in one process: what `calltap mount` and `calltap shell` have in common.
 *
 * Callers: mount.c, shell.c.  Context: host.
 */
#ifndef CMD_MOUNTING_H
#define CMD_MOUNTING_H

#include <host/tracefs/tracefs.h>

#include "watching.h"

struct mounting {
	struct watching watching;
	struct tracefs_options options;
	struct tracefs *tracefs;
	char path[64]; /* of the memory that the recording is written to */
	bool joins;    /* the process is traced already */
	bool waits;    /* there is no process: one is to be written to the tree's file attach */
};

/* Set the defaults; argv: as for getopt_long().  Call watching_clear() in any case. */
int mounting_init(struct mounting *mounting, char **argv) __attribute__((warn_unused_result));
/* Check the process or command, once it is known; EXIT_USAGE after a message. */
int mounting_check(struct mounting *mounting) __attribute__((warn_unused_result));
/* Mount the tree, record, and serve both until their end.  Returns the exit status. */
int mounting_run(struct mounting *mounting) __attribute__((warn_unused_result));

#endif
