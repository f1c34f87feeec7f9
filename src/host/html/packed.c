/*
 * Bytes as gzip in base64 (packed.h).  Context: host.
 */
#include <errno.h>
#include <zlib.h>

#include "packed.h"

#define PIECE	    49152u /* bytes: a multiple of 3, so that only the last piece ends with '=' */
#define GZIP_WINDOW (15 + 16)
#define LEVEL	    6

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(struct out *out, const unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += 3) {
		uint32_t word = (uint32_t)bytes[i] << 16;

		if (i + 1 < size)
			word |= (uint32_t)bytes[i + 1] << 8;
		if (i + 2 < size)
			word |= bytes[i + 2];
		out_char(out, digits[word >> 18]);
		out_char(out, digits[word >> 12 & 63]);
		out_char(out, i + 1 < size ? digits[word >> 6 & 63] : '=');
		out_char(out, i + 2 < size ? digits[word & 63] : '=');
	}
}

int packed_write(struct out *out, const unsigned char *bytes, size_t size)
{
	unsigned char piece[PIECE];
	z_stream stream = {0};
	int status = Z_OK;

	if (size > UINT32_MAX)
		return -EFBIG;
	if (deflateInit2(&stream, LEVEL, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	stream.next_in = (unsigned char *)(uintptr_t)bytes; /* zlib only reads it */
	stream.avail_in = (uInt)size;
	while (status == Z_OK) {
		stream.next_out = piece;
		stream.avail_out = sizeof(piece);
		status = deflate(&stream, Z_FINISH);
		put_base64(out, piece, sizeof(piece) - stream.avail_out);
	}
	deflateEnd(&stream);
	return status == Z_STREAM_END ? out->error : -EIO;
}
