/*
 * Checking UTF-8 in text that came from a traced program.  Context: host.
 */
#ifndef HOST_UTF8_H
#define HOST_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the well-formed character at text (1 to 4), 0 when there is none; text ends with NUL. */
size_t utf8_length(const char *text);

/*
 * True if that character, of so many bytes, is not to be seen on a terminal as it is: control characters, what turns
 * the direction of text around (U+202E and its kind), what has no width, and separators of lines.  Joiners (U+200C,
 * U+200D) are part of ordinary words.
 */
bool utf8_is_control(const char *text, size_t length);

#endif
