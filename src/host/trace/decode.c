/*
 * The columns of a DATA chunk back to records (decode.h).  Context: host.
 */
#include <errno.h>
#include <string.h>

#include <calltap/abi/file.h>
#include <calltap/abi/record.h>

#include "decode.h"

uint64_t record_payload_size(const struct calltap_file_data *data)
{
	return sizeof(*data) + (uint64_t)data->count * sizeof(uint32_t) + data->times_size + data->extras_size;
}

int record_decoder_init(struct record_decoder *decoder, const void *payload, size_t size)
{
	struct calltap_file_data data;
	const unsigned char *bytes = payload;

	memset(decoder, 0, sizeof(*decoder));
	if (size < sizeof(data))
		return -EBADMSG;
	memcpy(&data, payload, sizeof(data));
	if (record_payload_size(&data) != size)
		return -EBADMSG;
	decoder->head = bytes + sizeof(data);
	decoder->time = decoder->head + (size_t)data.count * sizeof(uint32_t);
	decoder->time_end = decoder->time + data.times_size;
	decoder->extra = decoder->time_end;
	decoder->extra_end = decoder->extra + data.extras_size;
	decoder->left = data.count;
	decoder->ticks = data.base_ticks;
	return 0;
}

/* A LEB128 of up to 64 bits. */
static int get_leb(struct record_decoder *decoder, uint64_t *value)
{
	const unsigned char *time = decoder->time;
	unsigned shift = 0;
	uint64_t sum = 0;

	do {
		if (time == decoder->time_end || shift > 63)
			return -EBADMSG;
		sum |= (uint64_t)(*time & 0x7f) << shift;
		shift += 7;
	} while (*time++ & 0x80);
	decoder->time = time;
	*value = sum;
	return 0;
}

int record_decoder_next(struct record_decoder *decoder, struct record *record)
{
	uint64_t zigzag, extra = 0;
	unsigned kind, words;
	uint32_t head;
	size_t size;

	if (!decoder->left)
		return 0;
	memcpy(&head, decoder->head, sizeof(head));
	kind = head >> CALLTAP_RECORD_ID_BITS;
	if (!calltap_record_is_filed(kind) ||
	    (kind == CALLTAP_REC_EVENT && !calltap_event_words(head & CALLTAP_RECORD_ID_MAX)))
		return -EBADMSG;
	if (get_leb(decoder, &zigzag))
		return -EBADMSG;
	words = calltap_record_words((uint64_t)head << 32);
	size = (words - 1) * sizeof(extra);
	if ((size_t)(decoder->extra_end - decoder->extra) < size)
		return -EBADMSG;
	if (words == 2)
		memcpy(&extra, decoder->extra, sizeof(extra));
	decoder->ticks += zigzag >> 1 ^ -(zigzag & 1);
	decoder->head += sizeof(head);
	decoder->left--;
	*record = (struct record){decoder->ticks, extra, decoder->extra, head & CALLTAP_RECORD_ID_MAX, (uint8_t)kind};
	decoder->extra += size;
	return 1;
}
