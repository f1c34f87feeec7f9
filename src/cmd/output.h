/*
 * A file that gets its name when it is whole, so that it is there complete or
 * not at all.
 *
 * Callers: export.c, snapshot.c, instance.c.  Context: host.
 */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include <limits.h>

struct output {
	const char *path;
	char temporary[PATH_MAX]; /* what it is called until then; "" = path is no file, and written to as it is */
	int fd;
};

/* -errno: fd is -1, and there is nothing to be closed. */
int output_open(struct output *output, const char *path) __attribute__((warn_unused_result));
/* Give it its name, in the place of what had it; -errno: it is there under the other one still. */
int output_name(const struct output *output) __attribute__((warn_unused_result));
void output_remove(const struct output *output);
/* Close it, and name it, or remove it after an error: that one, or what there is now. */
int output_finish(struct output *output, int err) __attribute__((warn_unused_result));

#endif
