/*
 * `--mount DIR` of `record` and `attach`: a tree of the kernel's tracing files beside the recording (mount.c).
 *
 * Context: host.
 */
#ifndef CMD_BESIDE_H
#define CMD_BESIDE_H

#include <sys/types.h>

#include "recording.h"

/* A `calltap mount` beside a recording. */
struct beside {
	char *folder; /* its path; NULL = it was not asked for */
	struct record_live *live;
	pid_t pid; /* of the tool that serves the tree; 0 = it does not run */
};

/* Before the recording: have the tree mounted once it has begun.  EXIT_USAGE after a message. */
int beside_prepare(struct beside *beside, struct recording *recording) __attribute__((warn_unused_result));
/* Behind it: the tree stays as long as somebody has one of its files open. */
void beside_finish(struct beside *beside);

#endif
