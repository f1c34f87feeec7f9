/*
 * The files of the kernel's tracefs, for a session: a mounted tree (doc/design/tracefs.md).
 *
 * Callers: the commands `mount` and `shell`.  Context: host.  One thread does all of it: it answers the kernel's
 * requests (FUSE), asks the session as `calltap set` does, and reads the records that the session writes to memory.
 */
#ifndef HOST_TRACEFS_TRACEFS_H
#define HOST_TRACEFS_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <calltap/diag.h>

struct tracefs_options {
	size_t size;	       /* sizeof(struct tracefs_options) */
	const char *directory; /* that the tree is mounted on; NULL: see device */
	/*
	 * An open /dev/fuse that is mounted already, in another mount namespace, where all files are root's.  It
	 * becomes the tree's, and goes with it, but whoever mounted it unmounts it.  -1 = the tree is mounted here.
	 */
	int device;
	/*
	 * The file of the session's first instance, in memory, with record_options.follow: the top level is that one.
	 * -1: the session is another process', and the top level is a further instance of it.
	 */
	int memory;
	int done; /* eventfd: readable when that session has ended; -1 = see above */
	int stop; /* eventfd: readable when the tree is to go away */
	/*
	 * A socket that gets a byte when requests are answered from now on, and whose other end is closed when the tree
	 * is to go away; -1 = there is none.
	 */
	int owner;
	bool keep; /* the tree stays when the target has ended, until somebody unmounts it */
	/*
	 * Called when a process is to be recorded by a tree that is served without one: sets memory and done in these
	 * options, or leaves them as above where another session records it.  -errno with diag: it may be called again.
	 * NULL = the tree has its process from the beginning.
	 */
	int (*attach)(void *ctx, pid_t pid, struct calltap_diag *diag);
	/* Called once when the session has ended, and the tree stays for a while; or NULL. */
	void (*ended)(void *ctx);
	void *ctx;
};

struct tracefs;

/* Mount the tree.  The options must last as long as it.  -errno with diag: nothing is mounted. */
int tracefs_mount(struct tracefs **out, const struct tracefs_options *options, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * Serve the tree for the session that has the target `pid` (0: the session has ended already, or with `attach` there is
 * none yet), until it is unmounted, or `stop`; or the session has ended and no file is open any more.
 */
int tracefs_serve(struct tracefs *tracefs, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* Did the tree go before all who read had got all that was recorded?  For a tree that was served. */
bool tracefs_left_readers(const struct tracefs *tracefs);
/* Unmount what is mounted still, and free all.  tracefs: may be NULL. */
void tracefs_unmount(struct tracefs *tracefs);

#endif
