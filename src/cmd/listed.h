/*
 * The objects whose functions `calltap functions` lists: a program's file, or what a running process has mapped.
 *
 * Caller: functions.c.  Context: host.
 */
#ifndef CMD_LISTED_H
#define CMD_LISTED_H

#include <stdbool.h>
#include <stddef.h>

#include <calltap/diag.h>

struct filter_set;
struct object;

/* A file that a process has mapped, of which there is something to say. */
struct listed_note {
	char *path;
	int error; /* why it cannot be read, and nothing of it is listed; 0: it is listed, and was deleted or replaced
		    */
};

struct listed {
	struct object **objects; /* the program's first, then libraries that a filter names */
	size_t count;
	struct listed_note *notes;
	size_t note_count;
	size_t others; /* objects of a process that no filter names */
};

/*
 * Open the objects.  program: a file, as the shell finds it, or the number of a process, whose libraries are those that
 * it has mapped now.  fetch: look for the program's debug file on the servers first.  Also after an error
 * listed_close() is due.
 */
int listed_open(struct listed *listed, const char *program, const struct filter_set *filters, bool fetch,
		struct calltap_diag *diag) __attribute__((warn_unused_result));
void listed_close(struct listed *listed);

#endif
