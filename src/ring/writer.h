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
	uint64_t cursor;  /* address of the next slot; 0 while there is no room */
	uint64_t base;	  /* address of the open sub-buffer's first record */
	uint64_t span;	  /* bytes of the open sub-buffer's records; 0 = no sub-buffer is open */
	uint64_t span2;	  /* span - 8: for records of two words (entry.S) */
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
};

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
	uint64_t span = words == 1 ? writer->span : writer->span2;
	uint64_t more = words > 2 ? (words - 2) * 8u : 0;

	return span > more ? span - more : 0;
}

/* True if the open sub-buffer has room for `words` slots at the cursor. */
static inline bool ring_is_open(const struct ring_writer *writer, unsigned words)
{
	return writer->cursor - writer->base < ring_span(writer, words);
}

/*
 * Take `words` slots; NULL when the open sub-buffer has no room for them.  One
 * or two may be taken beyond its end, where they are no good; more could lie
 * in the next one's records then, so those are taken only if they are good.
 */
static inline uint64_t *ring_take(struct ring_writer *writer, unsigned words)
{
	uint64_t slot, at;

	if (words > 2) {
		do {
			slot = __atomic_load_n(&writer->cursor, __ATOMIC_RELAXED);
			at = slot - __atomic_load_n(&writer->base, __ATOMIC_RELAXED);
			if (at >= ring_span(writer, words))
				return NULL;
		} while (!arch_local_cas(&writer->cursor, slot, slot + words * 8u)); /* again after a handler's */
		return (uint64_t *)slot;
	}
	slot = arch_local_add(&writer->cursor, words * 8u);
	at = slot - __atomic_load_n(&writer->base, __ATOMIC_RELAXED);
	return at < ring_span(writer, words) ? (uint64_t *)slot : NULL;
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
