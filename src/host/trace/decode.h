/*
 * The columns of a DATA chunk back to records: the inverse of record_encode().
 *
 * Callers: cursor.c and follow.c, with one decoder per thread of the trace.  Context: host.  The payload is untrusted;
 * the decoder never reads past it.
 */
#ifndef HOST_TRACE_DECODE_H
#define HOST_TRACE_DECODE_H

#include <stddef.h>
#include <stdint.h>

struct record_decoder {
	const unsigned char *head, *time, *time_end, *extra, *extra_end; /* into the payload */
	uint32_t left;							 /* records to come */
	uint64_t ticks;
};

struct record {
	uint64_t ticks;
	uint64_t extra;		     /* the second word of a record of two words, else 0 */
	const unsigned char *behind; /* the words behind the record's head, 8 bytes each, in the payload */
	uint32_t id;
	uint8_t kind;
};

struct calltap_file_data;

/* The payload's size by the fields of its head. */
uint64_t record_payload_size(const struct calltap_file_data *data);
/* Begin with a DATA payload, decompressed, which must outlive the decoder; -EBADMSG when its sizes do not fit. */
int record_decoder_init(struct record_decoder *decoder, const void *payload, size_t size)
	__attribute__((warn_unused_result));
/* 1 and *record, 0 at the end, -EBADMSG: the rest of the chunk makes no sense. */
int record_decoder_next(struct record_decoder *decoder, struct record *record) __attribute__((warn_unused_result));

#endif
