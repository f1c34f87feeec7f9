/*
 * Reading untrusted bytes of call frame information: a value that is not all there is 0, and `bad` is set for good.
 *
 * Private to the readers of cfi.h.  Context: host.
 */
#ifndef HOST_STOCK_CFI_BYTES_H
#define HOST_STOCK_CFI_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cfi_bytes {
	const uint8_t *at, *end;
	bool bad;
};

static inline size_t cfi_left(const struct cfi_bytes *in)
{
	return (size_t)(in->end - in->at);
}

/* Pass over bytes: where they begin, or NULL when there are not so many. */
static inline const uint8_t *cfi_take(struct cfi_bytes *in, uint64_t size)
{
	const uint8_t *from = in->at;

	if (in->bad || size > cfi_left(in)) {
		in->bad = true;
		return NULL;
	}
	in->at += size;
	return from;
}

/* A little-endian number of 1 to 8 bytes. */
static inline uint64_t cfi_number(struct cfi_bytes *in, unsigned size)
{
	const uint8_t *from = cfi_take(in, size);
	uint64_t value = 0;

	for (unsigned i = 0; from && i < size; i++)
		value |= (uint64_t)from[i] << (8 * i);
	return value;
}

/* A LEB128 number, with its sign where it has one.  Bits beyond 64 are lost. */
static inline uint64_t cfi_leb128(struct cfi_bytes *in, bool has_sign)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)cfi_number(in, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += shift < 64 ? 7 : 0;
	} while (byte & 0x80);
	if (has_sign && byte & 0x40 && shift < 64)
		value |= ~(uint64_t)0 << shift;
	return value;
}

#endif
