/*
 * The lines of a source file, to be shown.
 *
 * Caller: tui.c.  Context: host.  The trace names the file, so it may be anything: only regular files up to a size are
 * read, and nothing waits.
 */
#ifndef HOST_TUI_SOURCE_H
#define HOST_TUI_SOURCE_H

#include <stddef.h>

#define SOURCE_BYTES_MAX (16u << 20)

struct source {
	char *text;   /* lines with NULs at their ends */
	char **lines; /* in text */
	size_t count;
	char error[512]; /* why there are no lines; "" = there are */
};

/* Read the file, path NULL: the trace names none.  0, also when it cannot be read; -ENOMEM. */
int source_read(struct source *source, const char *path) __attribute__((warn_unused_result));
void source_clear(struct source *source);

#endif
