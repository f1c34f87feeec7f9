/*
 * Writing a trace file (abi/file.h).  Context: host; the record room's
 * session owns the writer and calls it from one thread at a time.
 *
 * The first error (disk full) is kept: later calls return it and write
 * nothing, so the file ends with its last whole chunk.
 */
#ifndef HOST_TRACE_WRITER_H
#define HOST_TRACE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>
#include <calltap/diag.h>

struct trace_writer;

/* Create path (truncated, mode 0600) for a target of ELF machine arch. */
int trace_writer_create(struct trace_writer **out, const char *path, uint32_t arch, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * One chunk: size bytes of payload, compressed when that makes it smaller.
 * -EINVAL, -E2BIG (beyond CALLTAP_CHUNK_RAW_MAX): nothing was written, and the
 * error is not kept.
 */
int trace_writer_chunk(struct trace_writer *writer, uint32_t type, const void *payload, size_t size)
	__attribute__((warn_unused_result));
/* One INFO line; buffered until trace_writer_flush() or close. */
int trace_writer_info(struct trace_writer *writer, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4), warn_unused_result));
int trace_writer_flush(struct trace_writer *writer) __attribute__((warn_unused_result));
uint64_t trace_writer_bytes(const struct trace_writer *writer);
int trace_writer_error(const struct trace_writer *writer);
/* Flush and close; frees writer.  Returns the first error there was. */
int trace_writer_close(struct trace_writer *writer);

/*
 * Records of a sub-buffer to a DATA chunk.  The encoder belongs to one
 * thread of the host and is reused.
 */
struct record_encoder;
int record_encoder_create(struct record_encoder **out) __attribute__((warn_unused_result));
void record_encoder_destroy(struct record_encoder *encoder);

struct encode_result {
	uint64_t records;    /* in the payload */
	uint64_t lost;	     /* sum of LOST records */
	uint64_t wait_ticks; /* sum of WAIT records */
	uint64_t last_ticks;
	uint64_t holes; /* words before the last record that are empty or of no known kind */
};

/*
 * Encode nwords words at words: live shared memory that the target may be
 * writing (each word is read once; anything is accepted), whose first record's
 * high time half is that of head_ticks.  Stops at the first empty word that
 * only empty words follow.  On success *payload (owned by the encoder, valid
 * until its next call) is a DATA payload of *size bytes with thread and number
 * filled in; *size = 0 when there was no record.
 */
int record_encode(struct record_encoder *encoder, uint32_t thread, uint64_t number, uint64_t head_ticks,
		  const uint64_t *words, size_t nwords, const void **payload, size_t *size,
		  struct encode_result *result) __attribute__((warn_unused_result));

#endif
