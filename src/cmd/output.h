/*
 * A file that gets its name when it is whole, so that it is there complete or
 * not at all.
 *
 * Callers: export.c, html.c, snapshot.c, instance.c.  Context: host.
 */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include <limits.h>

#include <calltap/diag.h>

struct output {
	const char *path;
	char temporary[PATH_MAX]; /* the name until then; "" = path is no regular file, and is written to directly */
	int fd;
};

/* Open a new file. -errno: fd is -1, and there is nothing to be closed. */
int output_open(struct output *output, const char *path) __attribute__((warn_unused_result));
/* Give the file its name, in the place of an older file; -errno: it still has the temporary name. */
int output_name(const struct output *output) __attribute__((warn_unused_result));
void output_remove(const struct output *output);
/* Close the file, and name it; after an error (err, or one now) remove it.  Returns the error. */
int output_finish(struct output *output, int err) __attribute__((warn_unused_result));

/*
 * Open an output file with the rights that a shell would give a new file; "-" is standard output, which stays open at
 * the end.  -errno with diag.
 */
int output_open_public(struct output *output, const char *path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Finish a file of output_open_public(), as output_finish() does; diag tells of an error in finishing. */
int output_finish_public(struct output *output, int err, struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
