/*
 * Writing a trace file (abi/file.h).
 *
 * Callers: the session's rooms, for traces and snapshots; the core room, for the records that a flight recorder held.
 * Context: host; one thread at a time.
 *
 * The first error (disk full) is kept: later calls return it and write nothing, so the file ends with its last whole
 * chunk.
 */
#ifndef HOST_TRACE_WRITER_H
#define HOST_TRACE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>
#include <calltap/abi/ring.h>
#include <calltap/diag.h>

struct trace_memory;
struct trace_writer;

/* Create path (truncated, mode 0600) for a target of ELF machine arch. */
int trace_writer_create(struct trace_writer **out, const char *path, uint32_t arch, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Begin a trace with this head in fd, which is open for writing and empty.  The writer owns fd, also after an error. */
int trace_writer_open(struct trace_writer **out, int fd, const struct calltap_file_head *head)
	__attribute__((warn_unused_result));
/* Copy all but the records, from the file's head on, to memory as well, which stays the caller's. */
void trace_writer_mirror(struct trace_writer *writer, struct trace_memory *memory);
/*
 * Write one chunk: size bytes of payload, compressed when that makes it smaller.  -EINVAL, -E2BIG (beyond
 * CALLTAP_CHUNK_RAW_MAX): nothing was written, and the error is not kept.
 */
int trace_writer_chunk(struct trace_writer *writer, uint32_t type, const void *payload, size_t size)
	__attribute__((warn_unused_result));
/* Write chunks that another writer has made. */
int trace_writer_raw(struct trace_writer *writer, const void *chunks, size_t size) __attribute__((warn_unused_result));
/* Add one INFO line; buffered until trace_writer_flush() or close. */
int trace_writer_info(struct trace_writer *writer, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4), warn_unused_result));
/* Write the FORMATS chunk: the types of events that this version of calltap writes. */
int trace_writer_formats(struct trace_writer *writer) __attribute__((warn_unused_result));
/*
 * Note that a thread ran on a CPU at a time, later than at those noted of it before; cpu as in struct calltap_subbuf.
 * Buffered until trace_writer_flush() or close, or until there are more than a few.
 */
int trace_writer_cpu(struct trace_writer *writer, uint32_t thread, uint64_t ticks, uint32_t cpu)
	__attribute__((warn_unused_result));
int trace_writer_flush(struct trace_writer *writer) __attribute__((warn_unused_result));
const struct calltap_file_head *trace_writer_head(const struct trace_writer *writer);
int trace_writer_fd(const struct trace_writer *writer);
uint64_t trace_writer_bytes(const struct trace_writer *writer);
int trace_writer_error(const struct trace_writer *writer);
/* Flush and close; frees writer.  Returns the first error there was. */
int trace_writer_close(struct trace_writer *writer);

/* Records of a sub-buffer to a DATA chunk.  One thread of the tool at a time uses the encoder, again and again. */
struct record_encoder;
int record_encoder_create(struct record_encoder **out) __attribute__((warn_unused_result));
void record_encoder_destroy(struct record_encoder *encoder);

#define ENCODE_CPUS 16u /* TIME records with a CPU, of one call; the last one takes the place of those beyond */

struct encode_result {
	uint64_t records;    /* in the payload */
	uint64_t lost;	     /* sum of LOST records */
	uint64_t wait_ticks; /* sum of WAIT records */
	uint64_t last_ticks;
	uint64_t holes;	 /* words before the last record that are empty or of no known kind, and events that are not
			    whole */
	uint64_t events; /* EVENT records in the payload */
	/* TIME records with a CPU: it lies in struct calltap_subbuf's form. */
	uint32_t cpu_count;
	struct {
		uint32_t cpu;
		uint64_t ticks;
	} cpus[ENCODE_CPUS];
};

/*
 * Encode nwords words at words: live shared memory that the target may be writing, so any value is accepted.  The high
 * time half of the first record is that of head_ticks.  On success *payload (owned by the encoder, valid until its next
 * call) is a DATA payload of *size bytes with thread and number filled in; *size = 0 when there was no record.
 */
int record_encode(struct record_encoder *encoder, uint32_t thread, uint64_t number, uint64_t head_ticks,
		  const uint64_t *words, size_t nwords, const void **payload, size_t *size,
		  struct encode_result *result) __attribute__((warn_unused_result));
/* Note the CPUs that a sub-buffer has told: its head, NULL = not to be told, and what of its records was encoded. */
int trace_writer_cpus(struct trace_writer *writer, uint32_t thread, const struct calltap_subbuf *head,
		      const struct encode_result *result) __attribute__((warn_unused_result));
/*
 * The number of words before the first record that is not older than from_ticks: nwords when all are older.
 * *head_ticks becomes the time to encode the rest with.
 */
size_t record_skip_older(const uint64_t *words, size_t nwords, uint64_t from_ticks, uint64_t *head_ticks);

#endif
