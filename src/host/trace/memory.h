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

/* Make the memory: in a memfd, or (fd not negative) in that empty file, which it then owns. */
int trace_memory_create(struct trace_memory *memory, uint64_t session, int fd) __attribute__((warn_unused_result));
void trace_memory_destroy(struct trace_memory *memory);
/* Append a chunk; when there is no memory left, the tables are marked as full. */
void trace_memory_add(struct trace_memory *memory, const struct iovec *pieces, int count);
/* Replace the last clock sample. */
void trace_memory_clock(struct trace_memory *memory, const struct calltap_file_clock *clock);

/*
 * Copy the whole chunks of [bytes, bytes + size), in order, to writer.  The tables may come from memory that a program
 * has scribbled on: bytes that are no good chunk are left out, and *bad counts such stretches.
 */
int trace_memory_copy(struct trace_writer *writer, const void *bytes, size_t size, uint64_t *bad)
	__attribute__((warn_unused_result));

#endif
