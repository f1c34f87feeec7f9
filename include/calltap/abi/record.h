/*
 * The trace record: what the probes write and every reader decodes.
 *
 * A record is one 64-bit word, some kinds followed by one more word:
 *
 *     63..60  kind      enum calltap_record_kind, never 0
 *     59..32  id        function id, or a small number (see the kind)
 *     31..0   time      low half of the clock at the event
 *
 * The high half of the clock comes from the sub-buffer's head (ring.h) and
 * from each CALLTAP_REC_TIME after it; a writer emits one before the first
 * record whose high half differs.  A word of 0 is a slot that was taken and
 * not (or not yet) written: readers skip it.
 *
 * Records of one thread are in program order.  Times of one thread may step
 * back by a signal handler's run time: a probe that was interrupted between
 * its clock read and its slot stores its older time after the handler's.
 *
 * Included by both halves (target and host) and by nothing else's ABI.
 */
#ifndef CALLTAP_ABI_RECORD_H
#define CALLTAP_ABI_RECORD_H

#include <stdint.h>

#define CALLTAP_RECORD_ID_BITS 28
#define CALLTAP_RECORD_ID_MAX  ((1u << CALLTAP_RECORD_ID_BITS) - 1)

enum calltap_record_kind {
	CALLTAP_REC_NONE = 0,	/* empty slot */
	CALLTAP_REC_ENTRY = 1,	/* a function was entered; id = function */
	CALLTAP_REC_EXIT = 2,	/* it returned; id = function */
	CALLTAP_REC_CALL = 3,	/* tracer "function"; second word = return address in the caller */
	CALLTAP_REC_TIME = 4,	/* second word = the full clock; id = 0 */
	CALLTAP_REC_UNWIND = 5, /* the id innermost open frames ended without returning */
	CALLTAP_REC_STACK = 6,	/* the thread runs on the stack whose last byte has the second word's address */
	CALLTAP_REC_LOST = 7,	/* second word = records dropped right before this one */
	CALLTAP_REC_WAIT = 8,	/* second word = ticks the writer had to wait for the reader */
	CALLTAP_REC_TAIL = 9,	/* the innermost frame tail-called function id, which takes its place */
	/*
	 * The next UNWIND leaves a frame of function id innermost.  Written before a jump that may leave a signal
	 * handler: where that interrupted a recorder, the count may be one off.
	 */
	CALLTAP_REC_LANDING = 10,
	/*
	 * An outermost call of the thread's stack has its return address at the second word's address.  So frames from
	 * before the trace that have theirs there or below are over.  In processes that were attached to.
	 */
	CALLTAP_REC_RISE = 11,
	/*
	 * In rings of mode OVERWRITE alone, at the very beginning of a sub-buffer, never in a file: a frame of the
	 * thread's stack that is open there, the innermost first; id = function, second word = the full clock at its
	 * entry.  In front of them one with id CALLTAP_RECORD_ID_MAX, whose second word is the address of the stack's
	 * last byte.  The innermost frame may have that id, too: it is being left, and the EXIT that comes next names
	 * it.  Frames farther out than those that are told are not known.
	 */
	CALLTAP_REC_OPEN = 12,
	CALLTAP_REC_KINDS
};

#define CALLTAP_RECORD_OPEN_MAX 64 /* frames that are told at the beginning of a sub-buffer */

static inline uint64_t calltap_record_make(enum calltap_record_kind kind, uint32_t id, uint32_t time_low)
{
	return (uint64_t)kind << 60 | (uint64_t)id << 32 | time_low;
}

static inline unsigned calltap_record_kind(uint64_t word)
{
	return (unsigned)(word >> 60);
}

static inline uint32_t calltap_record_id(uint64_t word)
{
	return (uint32_t)(word >> 32) & CALLTAP_RECORD_ID_MAX;
}

/* Number of 64-bit words the record takes, 1 or 2; unknown kinds count as 1. */
static inline unsigned calltap_record_words(unsigned kind)
{
	const unsigned two = 1u << CALLTAP_REC_CALL | 1u << CALLTAP_REC_TIME | 1u << CALLTAP_REC_STACK |
			     1u << CALLTAP_REC_LOST | 1u << CALLTAP_REC_WAIT | 1u << CALLTAP_REC_RISE |
			     1u << CALLTAP_REC_OPEN;

	return 1 + (two >> kind & 1);
}

#endif
