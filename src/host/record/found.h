/*
 * What there is to trace in a program and its libraries, before anything runs
 * or is touched.
 *
 * Callers: precheck.c for a command, attached.c for a process.  Context: host.
 */
#ifndef HOST_RECORD_FOUND_H
#define HOST_RECORD_FOUND_H

#include <stdbool.h>
#include <stddef.h>

#include <calltap/diag.h>

struct session;
struct object;

struct found {
	struct object **objects; /* the program's first */
	size_t count;
	size_t sites;	    /* that can be traced */
	size_t wanted;	    /* that the filters leave */
	bool asan;	    /* a library is AddressSanitizer's shared runtime */
	const char *greedy; /* the sanitizer that lays claim to all memory, if there is one */
};

/* Read the open file, and decide on its functions; what is no object that can be read is passed over. */
int found_consider(struct found *found, struct session *session, int fd, const char *path, bool library)
	__attribute__((warn_unused_result));
/* -ENODATA: nothing to trace, or a filter that matches nothing; program: what it is called. */
int found_check(const struct found *found, struct session *session, const char *program, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void found_clear(struct found *found);

#endif
