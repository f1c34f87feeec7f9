/*
 * The check of chunks and streams, as abi/file.h defines it.
 *
 * Context: host; used by the writer and the reader.
 */
#ifndef HOST_TRACE_CHECK_H
#define HOST_TRACE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CHECK_START 0x811c9dc5ull

static inline uint64_t check_word(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x100000001b3ull;
	return h ^ h >> 32;
}

/* Go on with size bytes; all calls of one check but the last take a multiple of 8. */
static inline uint64_t check_bytes(uint64_t h, const void *data, size_t size)
{
	const unsigned char *bytes = data;
	uint64_t word;

	for (; size >= sizeof(word); size -= sizeof(word), bytes += sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		h = check_word(h, word);
	}
	if (size) {
		word = 0;
		memcpy(&word, bytes, size);
		h = check_word(h, word);
	}
	return h;
}

#endif
