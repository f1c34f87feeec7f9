/*
 * Choosing the processes to attach to: by PID, by name, and with their children.
 *
 * Caller: the command `attach`.  Context: host; processes choose their names.
 */
#ifndef HOST_SESSION_CHOOSE_H
#define HOST_SESSION_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <calltap/diag.h>

/* A process that there is. */
struct candidate {
	pid_t pid, parent;
	uid_t user;
	char name[32];	   /* as the kernel has it, cut to 15 letters */
	char program[256]; /* last part of its executable's path, "" = not known */
};

struct choice {
	const pid_t *pids; /* in any case, whatever they are */
	size_t pid_count;
	const char *const *globs; /* processes of the user with a name, or a program, that matches one of these */
	size_t glob_count;
	bool children; /* of all these, and children of those */
	pid_t self;    /* the tool: the process itself and its ancestors are chosen by their PIDs alone */
	uid_t user;    /* 0: processes of all users are chosen by name */
};

/*
 * *out, for free(): each chosen process once, those that were given first, children behind parents.  -ENOENT: a glob
 * matches none.  table: sorted by PID.
 */
int choose_pids(pid_t **out, size_t *count, const struct choice *choice, const struct candidate *table,
		size_t table_count, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* All processes that have a program, but for those that have ended; *out is for free(). */
int choose_read(struct candidate **out, size_t *count) __attribute__((warn_unused_result));

#endif
