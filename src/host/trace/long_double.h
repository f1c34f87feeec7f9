/*
 * A long double of the target's CPU as text, whatever this machine's is.
 *
 * Callers: shown.c, tests.  Context: host.  Pure; the bytes are untrusted.
 */
#ifndef HOST_TRACE_LONG_DOUBLE_H
#define HOST_TRACE_LONG_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#define LONG_DOUBLE_TEXT 96u
#define LONG_DOUBLE_X87	 10u /* bytes: x86's extended format, of 64 bits */
#define LONG_DOUBLE_QUAD 16u /* IEEE 754's binary128 */

static inline bool long_double_has_size(uint32_t size)
{
	return size == LONG_DOUBLE_X87 || size == LONG_DOUBLE_QUAD;
}

/* The shortest decimal number that reads back as this one, which has a size of those above. */
void long_double_text(char text[LONG_DOUBLE_TEXT], const unsigned char *bytes, uint32_t size);

#endif
