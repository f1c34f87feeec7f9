/*
 * The tables of a flight recorder in shared memory (abi/tables.h): a trace
 * file without its records, to which the writer of the file appends as well.
 *
 * Callers: writer.c; the record room makes it and shares it; the core room
 * reads what became of it.  Context: host.
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
	struct calltap_tables *tables; /* NULL: there is none */
	size_t size;		       /* bytes mapped */
	int fd;			       /* a sealed memfd, or the file that was given */
	bool is_file;
	bool full;	     /* it could not grow: what came after is missing */
	uint32_t generation; /* counts up with each memfd */
};

/* Make it: in a memfd, or (fd not negative) in that empty file, which it then owns. */
int trace_memory_create(struct trace_memory *memory, uint64_t session, int fd) __attribute__((warn_unused_result));
void trace_memory_destroy(struct trace_memory *memory);
/* Append; when there is no memory left, it is marked as full. */
void trace_memory_add(struct trace_memory *memory, const struct iovec *pieces, int count);
/* Replace the last clock sample. */
void trace_memory_clock(struct trace_memory *memory, const struct calltap_file_clock *clock);

/*
 * The whole chunks of [bytes, bytes + size), in order, to writer: tables that
 * may come from memory that a program has scribbled on.  What is no good chunk
 * is left out, and counted in *bad.
 */
int trace_memory_copy(struct trace_writer *writer, const void *bytes, size_t size, uint64_t *bad)
	__attribute__((warn_unused_result));

#endif
