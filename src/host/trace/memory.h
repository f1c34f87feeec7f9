/*
 * The tables of a flight recorder in shared memory (abi/tables.h): a trace file without its records, to which the
 * writer of the file appends as well.
 *
 * Callers: writer.c; the session's rooms makes and shares the memory; the core room reads the tables that a dead
 * process left.  Context: host.
 */
#ifndef HOST_TRACE_MEMORY_H
#define HOST_TRACE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <calltap/abi/tables.h>

struct trace_writer;

struct trace_memory {
	struct calltap_tables *tables; /* NULL: no memory was made */
	size_t size;		       /* bytes mapped */
	int fd;			       /* a sealed memfd, or the file that was given */
	bool is_file;
	bool full;	     /* the memory could not grow: later chunks are missing */
	uint32_t generation; /* counts how often the memory was made or grown */
};

/*
 * Make the memory: in a memfd, or (fd not negative) in that empty file, which it then owns.  has_times: with a struct
 * calltap_tables_times, which tells nothing yet.
 */
int trace_memory_create(struct trace_memory *memory, uint64_t session, int fd, bool has_times)
	__attribute__((warn_unused_result));
void trace_memory_destroy(struct trace_memory *memory);
/* Append a chunk; when there is no memory left, the tables are marked as full. */
void trace_memory_add(struct trace_memory *memory, const struct iovec *pieces, int count);
/* The bytes behind the head, and the times within it; NULL: there are none. */
const void *trace_memory_bytes(const struct calltap_tables *tables);
struct calltap_tables_times *trace_memory_times(const struct trace_memory *memory);
/* Tell of rows that are new, and of all up to `until`. */
void trace_memory_tell(const struct trace_memory *memory, uint64_t span, const struct calltap_file_late *rows,
		       size_t count, uint64_t until);
/* Replace the last clock sample. */
void trace_memory_clock(struct trace_memory *memory, const struct calltap_file_clock *clock);

/*
 * From times that were read from a memory, which may be made up, to a TICKS chunk that says what is known, and where
 * nothing is.
 */
int trace_memory_write_times(struct trace_writer *writer, const struct calltap_tables_times *times)
	__attribute__((warn_unused_result));

/*
 * Copy the whole chunks of [bytes, bytes + size), in order, to writer.  The tables may come from memory that a program
 * has scribbled on: bytes that are no good chunk are left out, and *bad counts such stretches.
 */
int trace_memory_copy(struct trace_writer *writer, const void *bytes, size_t size, uint64_t *bad)
	__attribute__((warn_unused_result));

#endif
