/*
 * Writing protocol buffer messages (protobuf.dev, "Encoding").
 *
 * Callers: perfetto.c, pprof.c.  Context: host.  A message is built in a small fixed buffer; a field that does not fit
 * is left out as a whole (`full`), never cut.
 */
#ifndef HOST_EXPORT_PROTOBUF_H
#define HOST_EXPORT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
	uint8_t *bytes;
	size_t used;
	size_t size;
	bool full; /* a field did not fit */
};

static inline void protobuf_begin(struct protobuf *to, void *bytes, size_t size)
{
	to->bytes = bytes;
	to->used = 0;
	to->size = size;
	to->full = false;
}

/* Bytes of value as a varint, 1 to 10. */
size_t protobuf_varint_size(uint64_t value);
void protobuf_varint(struct protobuf *to, uint64_t value);
/* Each of these adds one field: tag and value. */
void protobuf_u64(struct protobuf *to, uint32_t field, uint64_t value);
void protobuf_bytes(struct protobuf *to, uint32_t field, const void *bytes, size_t size);
void protobuf_text(struct protobuf *to, uint32_t field, const char *text);
void protobuf_message(struct protobuf *to, uint32_t field, const struct protobuf *message);

#endif
