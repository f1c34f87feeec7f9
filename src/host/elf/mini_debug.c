/*
 * The section .gnu_debugdata: an object's local function symbols as an ELF file of its own, packed by xz (Fedora's
 * "MiniDebugInfo").
 *
 * Its bytes are the object's, so they are untrusted: neither the dictionary nor the result may take all memory.
 * Caller: symbol_tables.c.  Context: host.
 */
#include <lzma.h>
#include <stdlib.h>

#include "symbol_tables.h"

#define MEMORY_MAX   (UINT64_C(128) << 20) /* of the decoder: what xz -9 packs takes 65 MiB */
#define UNPACKED_MAX ((size_t)256 << 20)
#define FIRST_SIZE   ((size_t)1 << 20)

/* Make room for more at the decoder's output; false: there is too much already. */
static bool grow(uint8_t **bytes, size_t *capacity, lzma_stream *stream)
{
	size_t used = *capacity, size = used ? used * 2 : FIRST_SIZE;
	uint8_t *grown = size <= UNPACKED_MAX ? realloc(*bytes, size) : NULL;

	if (!grown)
		return false;
	*bytes = grown;
	*capacity = size;
	stream->next_out = grown + used;
	stream->avail_out = size - used;
	return true;
}

void *mini_debug_unpack(size_t *size, const void *packed, size_t packed_size)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t *bytes = NULL;
	size_t capacity = 0;
	lzma_ret ret = LZMA_OK;

	if (lzma_stream_decoder(&stream, MEMORY_MAX, 0) != LZMA_OK)
		return NULL;
	stream.next_in = packed;
	stream.avail_in = packed_size;
	while (ret == LZMA_OK && (stream.avail_out || grow(&bytes, &capacity, &stream)))
		ret = lzma_code(&stream, LZMA_FINISH);
	*size = capacity - stream.avail_out;
	lzma_end(&stream);
	if (ret == LZMA_STREAM_END)
		return bytes;
	free(bytes);
	return NULL;
}
