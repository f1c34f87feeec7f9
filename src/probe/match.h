/*
 * Does a text follow a pattern (enum calltap_match, abi/program.h)?
 *
 * Called by program.c, for programs that decide on a call, and by tests.  Context: probe.  At most the text's length
 * times the pattern's are the steps.
 */
#ifndef PROBE_MATCH_H
#define PROBE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/program.h>

/* Does the mark, or else the byte, at `pattern` take this letter? */
static inline bool match_takes(const unsigned char *pattern, unsigned char letter)
{
	return *pattern ? *pattern == letter : pattern[1] == CALLTAP_MATCH_ONE;
}

/*
 * Does the text follow the pattern, which ends with a mark?  Where it does not, the last mark for any bytes takes one
 * more: so each step takes a letter, a part of the pattern, or begins the pattern's rest one letter later.
 */
static inline bool match_follows(const unsigned char *text, uint64_t length, const unsigned char *pattern,
				 uint64_t size)
{
	uint64_t at = 0, i = 0, all = 0, from = 0; /* all: behind the last such mark, 0 = there was none */

	while (i + 1 < size) {
		bool mark = !pattern[i];

		if (mark && pattern[i + 1] == CALLTAP_MATCH_ALL) {
			all = i += 2;
			from = at;
		} else if (mark && pattern[i + 1] == CALLTAP_MATCH_END && at == length) {
			return true;
		} else if (at < length && match_takes(pattern + i, text[at])) {
			i += mark ? 2 : 1;
			at++;
		} else if (all && from < length) {
			i = all;
			at = ++from;
		} else {
			return false;
		}
	}
	return false;
}

#endif
