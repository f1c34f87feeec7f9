/*
 * Checking UTF-8 in text that came from a traced program.  Context: host.
 */
#ifndef HOST_UTF8_H
#define HOST_UTF8_H

#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the well-formed character at text (1 to 4), 0 when there is none; text ends with NUL. */
size_t utf8_length(const char *text);

#endif
