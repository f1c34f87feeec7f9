/*
 * Names like one that is not there.  Caller: slow.c.  Context: host.
 */
#ifndef HOST_DIFF_SIMILAR_H
#define HOST_DIFF_SIMILAR_H

#include <stddef.h>

#include "../trace/trace.h"

/* Write up to three names of the trace's functions that are like the glob as "'a', 'b'"; "" = there are none. */
void similar_names(char *text, size_t size, const struct trace *trace, const char *glob);

#endif
