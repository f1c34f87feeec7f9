/*
 * How functions, threads and objects are called in what we print.
 *
 * Context: host.  Names come from the traced program: what would change the
 * terminal's state or break a line is replaced by '?'.
 */
#ifndef HOST_VIEW_NAMES_H
#define HOST_VIEW_NAMES_H

#include "../trace/trace.h"

struct names;

struct names_text {
	const char *text;
	uint32_t length; /* bytes */
};

int names_create(struct names **out, const struct trace *trace) __attribute__((warn_unused_result));
void names_destroy(struct names *names);

/* A function's demangled name; "function#7" when the trace does not tell it.  Lives as long as names. */
struct names_text names_function(struct names *names, uint32_t function);
/* The same as a JSON string with its quotes. */
struct names_text names_function_json(struct names *names, uint32_t function);
/* "comm-tid". */
struct names_text names_thread(struct names *names, uint32_t thread);
/* Columns that the longest thread label takes, at most limit. */
unsigned names_thread_width(struct names *names, unsigned limit);

#endif
