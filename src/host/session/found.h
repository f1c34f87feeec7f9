/*
 * What there is to trace in a program and its libraries, before anything runs
 * or is touched.
 *
 * Callers: precheck.c for a command, attached.c and attachees.c for processes.
 * Context: host.
 */
#ifndef HOST_SESSION_FOUND_H
#define HOST_SESSION_FOUND_H

#include <stdbool.h>
#include <stddef.h>

#include <calltap/diag.h>

struct session;
struct object;

struct image;

struct found {
	struct object **objects; /* the program's first */
	struct image **images;	 /* of the same objects, until they are decided on */
	size_t count;
	size_t sites;		/* that can be traced */
	size_t wanted;		/* that the filters leave */
	bool asan;		/* a library is AddressSanitizer's shared runtime */
	const char *greedy;	/* the sanitizer that lays claim to all memory, if there is one */
	const char *no_returns; /* why returns cannot be recorded, or NULL: returns_refused(), calltap_mover() */
	char unread[200];	/* path of the first object whose file is gone, "" = there is none */
};

/* Read the open file; what is no object that can be read is passed over. */
int found_consider(struct found *found, struct session *session, int fd, const char *path, bool library)
	__attribute__((warn_unused_result));
/* Decide on the functions of all files, once they were read: what one object says may be about another one's calls. */
int found_decide(struct found *found, struct session *session) __attribute__((warn_unused_result));
/* -ENODATA: nothing to trace; program: what it is called, pid: 0 = it does not run yet. */
int found_check(const struct found *found, const struct session *session, const char *program, pid_t pid,
		struct calltap_diag *diag) __attribute__((warn_unused_result));
/* -ENODATA: a filter that matches nothing in all that was found. */
int found_match(const struct found *found, const struct session *session, const char *program,
		struct calltap_diag *diag) __attribute__((warn_unused_result));
/* True if the filters leave nothing of what was found. */
bool found_is_idle(const struct found *found, const struct session *session);
/* Add what was found in one program to what was found in others. */
int found_add(struct found *all, const struct found *found) __attribute__((warn_unused_result));
void found_clear(struct found *found);

#endif
