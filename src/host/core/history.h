/*
 * From the rings of a flight recorder to a trace file.
 *
 * The rings may be written to meanwhile (a snapshot), or lie in a core file: they are read through a function.  First
 * every ring is copied, so that all show about the same moment, then the copies are encoded at leisure.  Everything
 * that is read is untrusted: counters are bounded, a sub-buffer counts only if its number says before and after that it
 * is whole.
 *
 * Callers: the session's rooms (snapshots, and the end of an overwriting session) and core.c.  Context: host.
 */
#ifndef HOST_CORE_HISTORY_H
#define HOST_CORE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>
#include <calltap/abi/ring.h>

struct record_encoder;
struct trace_writer;
struct history_ring;

struct history_arena {
	uint32_t process; /* index in the trace */
	uint32_t ring_count;
	uint64_t forked_ticks; /* of a forked child: when it began; else 0 */
	uint64_t ring_stride;
	uint32_t sub_size, sub_count;
	/* Read size bytes at offset `at` of the arena; not 0: they are not to be had. */
	int (*read)(void *arg, uint64_t at, void *to, size_t size);
	void *arg;
};

/*
 * A call that is known without its records, from a trigger: its beginning may be overwritten.  Then the beginning is
 * written in front of the thread's records.
 */
struct history_call {
	uint32_t process; /* index in the trace */
	uint32_t tid;	  /* as in the rings */
	uint32_t function;
	uint64_t entry_ticks, exit_ticks;
	bool threw;  /* the call did not return */
	bool wanted; /* the trace is to have it even if all other records of the thread are younger */
	bool placed; /* result: the trace has it */
};

#define HISTORY_CALL_TEXT 96 /* bytes */

/* As one word of a text, and back; false: the text is none. */
void history_call_print(const struct history_call *call, char text[HISTORY_CALL_TEXT]);
bool history_call_parse(struct history_call *call, const char *text);

struct history {
	struct trace_writer *writer;
	struct record_encoder *encoder, *call_encoder;
	uint64_t from_ticks;  /* older records are left out */
	uint32_t next_thread; /* index in the trace */
	size_t budget;	      /* bytes to copy before the copies are written */
	uint64_t limit;	      /* bytes to copy in all; rings cannot truly have more */
	/*
	 * Called for each thread before its THREAD chunk is written. holds_ring: no other thread has taken its ring
	 * over.
	 */
	int (*thread)(void *arg, struct calltap_file_thread *row, bool holds_ring);
	void *arg;
	struct history_call *calls; /* the caller's, by entry_ticks */
	size_t call_count;
	/* Results. */
	uint64_t records, lost, wait_ticks, holes;
	uint64_t overwritten; /* result: sub-buffers that were written to while they were read, or scribbled on */
	uint64_t older;	      /* result: sub-buffers that were overwritten before */
	uint64_t last_ticks;
	uint32_t threads;
	/* Private to history.c: */
	struct history_ring *rings;
	uint32_t ring_count, ring_room;
	size_t copied;
	uint64_t copied_in_all;
	uint32_t absent; /* sub-buffers that could not be read */
};

int history_create(struct history *history, struct trace_writer *writer) __attribute__((warn_unused_result));
void history_destroy(struct history *history);

/* A function for history_arena.read: arg is the arena in this process' memory, shared with its writer. */
int history_read_shared(void *arg, uint64_t at, void *to, size_t size);
/*
 * Copy the rings from index *ring on, until the budget is used up: *ring becomes the next one's index. *ring ==
 * ring_count: all are copied.
 */
int history_copy(struct history *history, const struct history_arena *arena, uint32_t *ring)
	__attribute__((warn_unused_result));
/* Write the copies, and free them. */
int history_write(struct history *history) __attribute__((warn_unused_result));

#endif
