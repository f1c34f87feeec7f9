/* Small traces made by hand, for the trace room's unit tests. */
#ifndef TEST_TRACE_SUPPORT_H
#define TEST_TRACE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/trace/trace.h"
#include "host/trace/writer.h"

/* A record to write; extra is ignored for one-word kinds. */
struct say {
	enum calltap_record_kind kind;
	uint32_t id;
	uint64_t ticks;
	uint64_t extra;
};

struct maker {
	char path[64];
	struct trace_writer *writer;
	struct record_encoder *encoder;
};

/* A new trace in a temporary file with nothing in it. */
void maker_open(struct maker *maker);
/* Write one DATA chunk of a thread. */
void maker_data(struct maker *maker, uint32_t thread, uint64_t number, const struct say *says, size_t count);
void maker_function(struct maker *maker, uint32_t id, uint32_t object, uint64_t address, uint32_t size,
		    const char *symbol);
void maker_thread(struct maker *maker, uint32_t thread, uint32_t process, uint32_t tid, const char *name);
void maker_process(struct maker *maker, const struct calltap_file_process *about, const char *exe);
void maker_object(struct maker *maker, uint32_t object, const char *path);
void maker_end(struct maker *maker, uint64_t records);
/* Close the writer; the file stays until maker_remove(). */
void maker_close(struct maker *maker);
void maker_remove(struct maker *maker);

/* A small file with every type of chunk: two threads, three functions, ten events. */
void maker_everything(struct maker *maker);

/* The whole of a file; the caller frees it. */
unsigned char *file_read(const char *path, size_t *size);
void file_write(const char *path, const void *data, size_t size);

/*
 * Read all that can be read of the file: tables, names, events through a call
 * stack.  Returns the number of events, or -1 when the file is refused.  *told
 * (may be NULL): the trace or the cursor said that something is missing.
 */
long file_walk(const char *path, bool *told);

/* A fast deterministic generator. */
uint64_t random_next(uint64_t *state);

#endif
