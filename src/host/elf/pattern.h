/*
 * A glob or regular expression on function names.
 *
 * Caller: filter.c.  Context: host.
 */
#ifndef HOST_ELF_PATTERN_H
#define HOST_ELF_PATTERN_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

struct pattern {
	char *glob; /* NULL: regex */
	regex_t regex;
	bool exact;	 /* the glob has no wildcard */
	size_t head;	 /* bytes in front of its first wildcard or backslash */
	bool all;	 /* the glob matches every name */
	char needle[32]; /* a word that the mangled form of each matching name has in it; "" = not known */
};

/* The fault of a pattern, and its place. */
struct pattern_fault {
	size_t column;
	char text[160];
};

/* Length of the object's part in a filter "object:pattern", 0 = it has none. */
size_t pattern_object_length(const char *text);

/* "/regex/" or a glob.  -EINVAL: see fault; -ENOMEM. */
int pattern_compile(struct pattern *pattern, const char *text, struct pattern_fault *fault)
	__attribute__((warn_unused_result));
void pattern_free(struct pattern *pattern);
bool pattern_matches(const struct pattern *pattern, const char *name);
/* False: no name of a function without a symbol, "object+0xOFFSET", matches. */
bool pattern_may_match_address(const struct pattern *pattern);
/* False: demangling symbol would give no match. */
bool pattern_may_match_demangled(const struct pattern *pattern, const char *symbol);

#endif
