/*
 * A mount namespace of the process' own in which /sys/kernel/tracing is a tree of ours, and what the kernel's tools
 * look at beside it is ours, too.
 *
 * Caller: the command `shell`.  Context: host, a process that serves no tree and has one thread.
 */
#ifndef HOST_TRACEFS_OVERLAY_H
#define HOST_TRACEFS_OVERLAY_H

#include <stdbool.h>

#include <calltap/diag.h>

#define OVERLAY_PLACE "/sys/kernel/tracing"

struct overlay {
	bool user;	     /* in a user namespace, where this user is root */
	int device;	     /* the open /dev/fuse that the tree is to be served by */
	const char *beside;  /* a file that tools look at and that could not be covered; NULL = there is none */
	const char *missing; /* likewise one that the kernel does not have, and that could not be put there */
};

/*
 * Enter such a namespace.  Nothing may be done with the tree until it is served; the device is to be closed here before
 * that.  -errno with diag; then the process is to end.
 */
int overlay_enter(struct overlay *overlay, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* The tree is served: cover the files whose contents it has. */
void overlay_finish(struct overlay *overlay);

/*
 * Have an empty file of this path in /proc/sys/kernel, where the kernel has none.  Caller: overlay_enter(), in the
 * namespace.  After an error everything is as it was.
 */
int overlay_add_sysctl(const char *path) __attribute__((warn_unused_result));

#endif
