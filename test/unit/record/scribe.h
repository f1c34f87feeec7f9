/*
 * Threads that fill the rings of a session as the ring room does, and a check of what a trace has of their records.
 *
 * Callers: the tests of snapshots and cores.
 */
#ifndef TEST_RECORD_SCRIBE_H
#define TEST_RECORD_SCRIBE_H

#include <host/trace/trace.h>
#include <ring/writer.h>

#include "support.h"

#define WRITERS 3u

struct scribe {
	pthread_t thread;
	struct bench *bench;
	struct calltap_ring *ring;
	struct ring_writer writer;
	uint32_t pause_us; /* after each sub-buffer */
	bool stop;
	uint64_t written;
};

struct seen {
	uint64_t records, gaps;
	uint32_t next[16];
	bool known[16];
	uint64_t ticks[16];
};

/* A session in overwrite mode with an arena of WRITERS + 1 rings. */
struct bench *scribe_bench(uint32_t sub_size, uint32_t sub_count);
struct calltap_ring *scribe_ring(struct bench *bench, uint32_t index);
/* Start a thread that writes records 0, 1, 2, ... of two kinds, every third one of two words, until it is stopped. */
void scribe_start(struct scribe *scribe, struct bench *bench, uint32_t ring, uint32_t pause_us);
void scribe_stop(struct scribe *scribe);
/* Write record number i as the calling thread, which has attached itself to the ring. */
void scribe_put(struct scribe *scribe, uint32_t i);

/* Read a trace; fails when a record is torn, out of order, or missing without a LOST event. */
struct seen scribe_read(const char *path, struct trace **out);

#endif
