/*
 * The write side of a thread's ring: take slots, open sub-buffers, count lost records.  Knows no tracer.  Context:
 * probe.
 *
 * A thread takes a slot with one instruction (arch_local_add on `cursor`), which a signal handler of the thread cannot
 * split; slots never move.  One load of `base` then decides whether the slot is good: a handler that opens the next
 * sub-buffer in between moves base, and the older slot fails the test (and stays empty) wherever it lies.  A thread
 * whose slot failed opens the next sub-buffer with signals blocked.  A writer of zeros (a new thread's, or a forked
 * child's: the kernel wipes the array on fork) has span 0, so that its first record takes the slow path.
 * doc/design/ring.md has the interleavings.
 */
#ifndef RING_WRITER_H
#define RING_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/record.h>
#include <calltap/abi/ring.h>
#include <arch.h>

/* Private to the target.  Assembly knows the first five fields and `ring` (offsets.h). */
struct ring_writer {
	uint64_t cursor; /* address of the next slot; 0 while there is no room */
	uint64_t base;	 /* address of the open sub-buffer's first record */
	uint64_t span;	 /* bytes of the open sub-buffer's records; 0 = no sub-buffer is open */
	uint64_t span2;	 /* span - 8: for records of two words (entry.S); or up to where no sample is taken (brief.S) */
	uint32_t time_hi; /* high half of the clock that readers assume */
	uint32_t tid;
	struct calltap_ring *ring; /* NULL: this thread holds no ring */
	uint64_t lost;		   /* records dropped and not yet written as a LOST record */
	uint64_t waited;	   /* ticks waited, and not yet written as a WAIT record */
};

/* State that all writers of a process share. */
struct ring_shared {
	struct calltap_board *board;
	uint32_t wait_max_ms; /* longest wait without progress, block mode */
	uint32_t reader_gone; /* 1: no reader any more; never wait */
	uint32_t quiet;	      /* not 0: a system call could be the program's end (a sandbox); make none */
	uint32_t frugal;      /* not 0: likewise of calls that can be done without (getcpu, rt_sigaction) */
	int32_t cpu_offset;   /* from the thread pointer to where the kernel notes the thread's CPU; 0 = not known */
};

/*
 * The CPU that the calling thread runs on, + 1, as the kernel keeps it in rseq's cpu_id: one load.  0 = not known: libc
 * has registered no rseq for the thread (the word is negative then).
 */
static inline uint32_t ring_cpu_noted(const struct ring_shared *shared)
{
	const char *pointer = __builtin_thread_pointer();
	uint32_t cpu;

	if (!shared->cpu_offset)
		return 0;
	/* Relaxed: the kernel writes it, before this thread runs on after a move. */
	cpu = __atomic_load_n((const uint32_t *)(pointer + shared->cpu_offset), __ATOMIC_RELAXED);
	return cpu < CALLTAP_RECORD_ID_MAX ? cpu + 1 : 0;
}

/*
 * Where the open sub-buffer keeps the CPU that it has told last; NULL where none was opened.  One load of `base`: a
 * signal handler may fork at any time, and wiped writers are all that the child finds.
 */
static inline uint32_t *ring_cpu_told(const struct ring_writer *writer)
{
	uint64_t base = __atomic_load_n(&writer->base, __ATOMIC_RELAXED);

	return base ? &((struct calltap_subbuf *)base - 1)->cpu_told : NULL;
}

/* True if the thread is known to run on another CPU than its open sub-buffer has told last. */
static inline bool ring_has_moved(const struct ring_writer *writer, const struct ring_shared *shared)
{
	uint32_t cpu = ring_cpu_noted(shared);
	const uint32_t *told = ring_cpu_told(writer);

	return cpu && told && cpu != __atomic_load_n(told, __ATOMIC_RELAXED);
}

static inline void ring_tell_cpu(const struct ring_writer *writer, uint32_t cpu)
{
	uint32_t *told = ring_cpu_told(writer);

	if (told)
		__atomic_store_n(told, cpu, __ATOMIC_RELAXED);
}

/* The ring at an index of an arena. */
static inline struct calltap_ring *ring_at(struct calltap_arena *arena, uint32_t index)
{
	return (struct calltap_ring *)((char *)arena + CALLTAP_PAGE + index * arena->ring_stride);
}

/* Wake the tool, if it sleeps, to look at the session's rings and requests. */
void ring_bell(struct calltap_board *board);
/* Give `ring`, which the caller has claimed, to the calling thread. named: note the thread's name, by a system call. */
void ring_attach(struct ring_writer *writer, struct calltap_ring *ring, int tid, bool named);
/* Move the writer to `ring`, which the caller has claimed; the writer's next sub-buffer opens there. */
void ring_move(struct ring_writer *writer, struct calltap_ring *ring);
/* The thread has a new name: note it in the ring and in the open sub-buffer. */
void ring_rename(struct ring_writer *writer);
/*
 * Open the next sub-buffer.  False: there is no room (drop mode, or block
 * mode whose wait ran out).  Signals must be blocked.
 */
bool ring_open_next(struct ring_writer *writer, const struct ring_shared *shared) __attribute__((warn_unused_result));
/* True if a sub-buffer could be opened right now without waiting. */
bool ring_has_room(const struct ring_writer *writer);

/* Where in a sub-buffer a record of so many words must begin, to end in it: below this; 0 = none is open. */
static inline uint64_t ring_span(const struct ring_writer *writer, unsigned words)
{
	uint64_t span = writer->span, more = (words - 1) * 8u;

	return span > more ? span - more : 0;
}

/* The first whole word at a cursor or behind it, where brief records may have left half a word over. */
static inline uint64_t ring_whole(uint64_t cursor)
{
	return (cursor + 7) & ~(uint64_t)7;
}

/* True if the open sub-buffer has room for `words` slots at the cursor. */
static inline bool ring_is_open(const struct ring_writer *writer, unsigned words)
{
	return ring_whole(writer->cursor) - writer->base < ring_span(writer, words);
}

/*
 * Take slots for a record, or for several at once, of so many words; NULL when the open sub-buffer has no room for
 * them. They are taken only if they are good: some could lie among the next sub-buffer's records.  They begin at a
 * whole word: half a one that a brief record has left over becomes a PAD.
 */
static inline uint64_t *ring_take_more(struct ring_writer *writer, unsigned words)
{
	uint64_t cursor, first, span, bytes = words * 8u;

	do {
		cursor = __atomic_load_n(&writer->cursor, __ATOMIC_RELAXED);
		first = ring_whole(cursor);
		span = __atomic_load_n(&writer->span, __ATOMIC_RELAXED);
		if (span < bytes || first - __atomic_load_n(&writer->base, __ATOMIC_RELAXED) > span - bytes)
			return NULL;
	} while (!arch_local_cas(&writer->cursor, cursor, first + bytes)); /* again after a handler's */
	if (first != cursor)
		__atomic_store_n((uint32_t *)cursor, CALLTAP_RECORD_PAD, __ATOMIC_RELAXED);
	return (uint64_t *)first;
}

/* Slots that were taken at half a word, and are in the open sub-buffer, become PADs. */
static inline void ring_pad(const struct ring_writer *writer, uint64_t slot, unsigned words)
{
	for (unsigned i = 0; i < 2 * words && slot - writer->base < writer->span; i++, slot += 4)
		__atomic_store_n((uint32_t *)slot, CALLTAP_RECORD_PAD, __ATOMIC_RELAXED);
}

/*
 * As ring_take_more(), where there are no brief records by one instruction, which no handler makes to be tried again.
 * One or two may be taken beyond the sub-buffer's end.
 */
static inline uint64_t *ring_take(struct ring_writer *writer, unsigned words)
{
	uint64_t slot;

	if (words > 2 || __atomic_load_n(&writer->cursor, __ATOMIC_RELAXED) & 7)
		return ring_take_more(writer, words);
	slot = arch_local_add(&writer->cursor, words * 8u);
	if (!(slot & 7))
		return slot - __atomic_load_n(&writer->base, __ATOMIC_RELAXED) < ring_span(writer, words)
			       ? (uint64_t *)slot
			       : NULL;
	ring_pad(writer, slot, words); /* a handler's brief record came before it */
	return ring_take_more(writer, words);
}

/* Write a record's words into its slot; the head goes last, for it makes the record visible. */
static inline void ring_put(uint64_t *slot, uint64_t head)
{
	__atomic_store_n(slot, head, __ATOMIC_RELEASE); /* pairs with the tool's read in record_encode() */
}

static inline void ring_put2(uint64_t *slot, uint64_t head, uint64_t second)
{
	__atomic_store_n(slot + 1, second, __ATOMIC_RELAXED);
	ring_put(slot, head);
}

/* Write a record of any size: behind its head come the words of an event, none of which has a kind. */
static inline void ring_put_all(uint64_t *slot, uint64_t head, const uint64_t *behind, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		__atomic_store_n(slot + 1 + i, behind[i], __ATOMIC_RELAXED);
	ring_put(slot, head);
}

#endif
