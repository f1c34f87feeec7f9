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

bool utf8_is_control(const char *text, size_t length)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x00, 0x1f},	  {0x7f, 0x9f},	    {0xad, 0xad},     {0x61c, 0x61c},
		{0x180e, 0x180e}, {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},
		{0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
	};
	uint32_t code = (unsigned char)text[0];

	if (length > 1)
		code &= 0x7fu >> length;
	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3fu);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}
