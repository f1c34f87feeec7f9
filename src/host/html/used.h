/*
 * The functions that the page names, numbered from 1 on in the order of their first use.
 *
 * Callers: boxes.c, paths.c, write.c.  Context: host.  Number 0 stands for calls of several functions.  Ids that the
 * trace does not describe share one number.
 */
#ifndef HOST_HTML_USED_H
#define HOST_HTML_USED_H

#include "../trace/trace.h"

struct used {
	uint32_t functions, untraced;
	uint32_t *numbers; /* by id, the untraced ones behind, the unknown ones last; 0 = not used */
	uint32_t *ids;	   /* by number - 1; TRACE_NONE = unknown */
	uint32_t count;
};

int used_create(struct used *used, const struct trace *trace) __attribute__((warn_unused_result));
uint32_t used_number(struct used *used, uint32_t function);
void used_clear(struct used *used);

#endif
