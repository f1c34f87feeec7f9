/*
 * The keeper: a process that takes the mount away when the tool was killed.
 *
 * Caller: mounted.c.  Context: host.
 */
#ifndef HOST_TRACEFS_KEEPER_H
#define HOST_TRACEFS_KEEPER_H

#include <limits.h>

struct keeper {
	char folder[PATH_MAX];
	int mount; /* the kernel's number of the mount */
	int pipe;  /* the keeper waits at its other end; -1 = there is none */
};

/* Start it for what is mounted on the folder, whose path is as realpath() has it.  Before the process has threads. */
int keeper_start(struct keeper *keeper, const char *folder) __attribute__((warn_unused_result));
/* The mount has gone: so does the keeper. */
void keeper_end(struct keeper *keeper);

#endif
