/*
 * Checking UTF-8 (RFC 3629); see utf8.h.  Context: host.
 */
#include <stdint.h>

#include "utf8.h"

size_t utf8_length(const char *text)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char c = (unsigned char)text[0];
	size_t length = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
	uint32_t code = length > 1 ? c & (0x7fu >> length) : c;

	for (size_t i = 1; i < length; i++) {
		unsigned char next = (unsigned char)text[i];

		if (next >> 6 != 2)
			return 0;
		code = code << 6 | (next & 0x3f);
	}
	if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}
