/*
 * Writing protocol buffer messages; see protobuf.h.  Context: host.
 */
#include <string.h>

#include "protobuf.h"

#define WIRE_VARINT 0u
#define WIRE_BYTES  2u

size_t protobuf_varint_size(uint64_t value)
{
	size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

void protobuf_varint(struct protobuf *to, uint64_t value)
{
	if (to->size - to->used < protobuf_varint_size(value)) {
		to->full = true;
		return;
	}
	for (; value >= 0x80; value >>= 7)
		to->bytes[to->used++] = (uint8_t)(value | 0x80);
	to->bytes[to->used++] = (uint8_t)value;
}

void protobuf_u64(struct protobuf *to, uint32_t field, uint64_t value)
{
	protobuf_varint(to, (uint64_t)field << 3 | WIRE_VARINT);
	protobuf_varint(to, value);
}

void protobuf_bytes(struct protobuf *to, uint32_t field, const void *bytes, size_t size)
{
	protobuf_varint(to, (uint64_t)field << 3 | WIRE_BYTES);
	protobuf_varint(to, size);
	if (to->full || to->size - to->used < size) {
		to->full = true;
		return;
	}
	memcpy(to->bytes + to->used, bytes, size);
	to->used += size;
}

void protobuf_text(struct protobuf *to, uint32_t field, const char *text)
{
	protobuf_bytes(to, field, text, strlen(text));
}

void protobuf_message(struct protobuf *to, uint32_t field, const struct protobuf *message)
{
	protobuf_bytes(to, field, message->bytes, message->used);
	to->full |= message->full;
}
