/*
 * Printable names of functions and threads.
 *
 * Callers: the views and the exporters.  Context: host.  Names come from the traced program: characters that would
 * change the terminal's state or break a line become '?'.
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

/*
 * A function's demangled name; "function#7" when the trace does not tell it.  The text lives as long as names, but that
 * of an unknown id only until the next call.
 */
struct names_text names_function(struct names *names, uint32_t function);
/*
 * Bytes of a name in front of the parameter list that a demangled C++ name ends with: the last parentheses, if nothing
 * but qualifiers follow.  "operator()", "{lambda(int)#1}" and "(anonymous namespace)::f" have none.
 */
size_t names_without_parameters(struct names_text name);
/* A function's name as a JSON string with its quotes. */
struct names_text names_function_json(struct names *names, uint32_t function);
/* Make a new text, with control and broken bytes replaced as in names; NULL when out of memory. */
char *names_clean_dup(const char *text) __attribute__((warn_unused_result));
/* A thread's label, "comm-tid". */
struct names_text names_thread(struct names *names, uint32_t thread);
/* Columns that the longest thread label takes, at most limit. */
unsigned names_thread_width(struct names *names, unsigned limit);

#endif
