/*
 * The trace record, which the probes write and every reader decodes.
 *
 * A record is a 64-bit word, its head, followed by more words or none; the
 * head tells how many (calltap_record_words()).
 *
 *     63..60  kind      enum calltap_record_kind, never 0
 *     59..32  id        function id, or a small number (see the kind)
 *     31..0   time      low half of the clock at the event
 *
 * In each word that is not a head, the place of the kind is 0.  So a reader
 * that comes upon a word whose kind is 0 where a head should be (a record that
 * is not written yet, or not any more) goes on word by word, and the next
 * word with a kind is the next head, whatever lies in between.
 *
 * An EVENT is sized and describes itself: its id holds a type, which the
 * trace file's FORMATS chunk lays out (file.h), and its size.  The words behind
 * its head hold seven bytes of the event each, in little-endian order; the
 * eighth byte is 0.  Readers skip events of types that they do not know.
 *
 *     59..44  type      CALLTAP_EVENT_*
 *     43..32  words     of the whole record, 1 to CALLTAP_EVENT_WORDS_MAX
 *
 * Brief records have no time and are 4 bytes long: a kind and an id, as in a
 * head's upper half.  Two of them share a word, the lower half is the earlier
 * one.  The highest bit of the id makes an entry a TAIL, the next one makes it a leaf's.  Where a word of
 * another record comes next and one half is left over, that half is
 * CALLTAP_RECORD_PAD.  A word whose lower half is a brief record and whose
 * upper half is 0 is one that the writer is still at work on.
 * doc/design/clock.md has what is known of a brief record's time.
 *
 * The high half of the clock comes from the sub-buffer's head (ring.h) and
 * from each CALLTAP_REC_TIME after it; a writer emits one before the first
 * record whose high half differs.  It may emit more of them, for they tell the
 * thread's CPU, too.  A word of 0 is a slot that was taken and not (or not yet)
 * written: readers skip it.
 *
 * Records of one thread are in program order.  Times of one thread may step
 * back by a signal handler's run time: a probe that was interrupted between
 * its clock read and its slot stores its older time after the handler's.
 *
 * Included by both halves of Calltap (target and host), and by no other program.
 */
#ifndef CALLTAP_ABI_RECORD_H
#define CALLTAP_ABI_RECORD_H

#include <stdint.h>

#define CALLTAP_RECORD_ID_BITS 28
#define CALLTAP_RECORD_ID_MAX  ((1u << CALLTAP_RECORD_ID_BITS) - 1)

enum calltap_record_kind {
	CALLTAP_REC_NONE = 0,	/* empty slot */
	CALLTAP_REC_ENTRY = 1,	/* a function was entered; id = function */
	CALLTAP_REC_EXIT = 2,	/* a function returned; id = function */
	CALLTAP_REC_CALL = 3,	/* tracer "function"; second word = return address in the caller */
	CALLTAP_REC_TIME = 4,	/* second word = the full clock; id = the CPU + 1, 0 = not known */
	CALLTAP_REC_UNWIND = 5, /* the id innermost open frames ended without returning, and leaves inside these */
	/*
	 * The thread runs on the stack whose last byte has the second word's address.  The stack's first one since
	 * records were lost has the number of its open frames that have an ENTRY as id, + 1: all others have ended.
	 * So has the stack's first one in a forked child, whose frames have their ENTRYs in the parent's ring.
	 * In a further instance's rings, where stacks are not told apart, the address is 0 and all frames are counted.
	 * All other ones have id 0.  The first one behind a LOST may have an UNWIND right behind it: that is of frames
	 * which are left out of the number already.
	 */
	CALLTAP_REC_STACK = 6,
	CALLTAP_REC_LOST = 7, /* second word = records dropped right before this one */
	CALLTAP_REC_WAIT = 8, /* second word = ticks the writer had to wait for the reader */
	CALLTAP_REC_TAIL = 9, /* the innermost frame tail-called function id, which takes its place */
	/*
	 * The next UNWIND leaves a frame of function id innermost.  Written before a jump that may leave a signal
	 * handler: where that interrupted a recorder, the count may be one off.  Leaves inside that frame have ended.
	 */
	CALLTAP_REC_LANDING = 10,
	/*
	 * An outermost call of the thread's stack has its return address at the address in the second word.  So frames
	 * from before the trace whose return address lies there or below are over.  Only in processes that were
	 * attached to.
	 */
	CALLTAP_REC_RISE = 11,
	/*
	 * In rings of mode OVERWRITE alone, at the very beginning of a sub-buffer, never in a file: a frame of the
	 * thread's stack that is open there, the innermost first; id = function, second word = the full clock at its
	 * entry.  The first OPEN has id CALLTAP_RECORD_ID_MAX and, as second word, the address of the stack's last
	 * byte.  The innermost frame may have that id, too: then it is being left, and the next EXIT names its
	 * function.  Frames farther out than the last OPEN are not known.
	 */
	CALLTAP_REC_OPEN = 12,
	CALLTAP_REC_EVENT = 13, /* an event of a type and a size that the id holds */
	/* As ENTRY (or TAIL: CALLTAP_BRIEF_TAIL) and EXIT, in a brief record. */
	CALLTAP_REC_BRIEF_ENTRY = 14,
	CALLTAP_REC_BRIEF_EXIT = 15,
	CALLTAP_REC_KINDS
};

#define CALLTAP_EVENT_WORD_BYTES 7 /* bytes of an event in each word behind the head */
#define CALLTAP_EVENT_TYPE_MAX	 0xffffu
#define CALLTAP_EVENT_WORDS_MAX	 256u /* about half of the smallest sub-buffer */
#define CALLTAP_EVENT_BYTES_MAX	 ((CALLTAP_EVENT_WORDS_MAX - 1) * CALLTAP_EVENT_WORD_BYTES)

/* Types with numbers that this header assigns. */
#define CALLTAP_EVENT_MARK	 1u  /* a text that a program or a tool writes into the trace, padded with zeros */
#define CALLTAP_EVENT_VERDICT	 2u  /* struct calltap_event_verdict, in front of the EXIT of a call */
#define CALLTAP_EVENT_FRAME	 3u  /* 7 bytes: the address of the innermost open call's return address, or below it */
#define CALLTAP_EVENT_VALUES	 16u /* and above: values of calls (program.h), laid out by FORMATS */
#define CALLTAP_EVENT_MARK_BYTES 255u /* bytes of a mark's text at the most */

/*
 * The innermost open call of the function is not to be shown, for its result is not what was asked for; with
 * CALLTAP_VERDICT_HIDE (program.h) nor is what it has called.
 */
struct calltap_event_verdict {
	uint32_t function; /* its id */
	uint8_t verdict;   /* enum calltap_verdict */
	uint8_t reserved[3];
};
#define CALLTAP_VERDICT_BYTES 5u /* of these, in the event */

/* Where a text lies in its event. */
struct calltap_event_place {
	uint16_t offset; /* in the event's bytes */
	uint16_t size;	 /* bytes, CALLTAP_PLACE_SIZE of it; flags: */
};
#define CALLTAP_PLACE_SIZE  0x3fffu
#define CALLTAP_PLACE_CUT   0x4000u /* there is more of the text in the program */
#define CALLTAP_PLACE_FAULT 0x8000u /* the rest of it could not be read */
#define CALLTAP_PLACE_NULL  0xc000u /* both: there is no text, for its address was 0 */

#define CALLTAP_RECORD_OPEN_MAX 64 /* frames that are told at the beginning of a sub-buffer */

/* In the id of a BRIEF_ENTRY: the innermost frame has tail-called the function, as by a TAIL. */
#define CALLTAP_BRIEF_TAIL (1u << 27)
/* In the id of a BRIEF_ENTRY: the call has no frame of which an UNWIND counts the end. */
#define CALLTAP_BRIEF_LEAF (1u << 26)

/* In place of a brief record: half a word that holds none. */
#define CALLTAP_RECORD_PAD 0xffffffffu

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

/* True if half a word is a brief record, or a PAD. */
static inline int calltap_record_is_brief(uint32_t half)
{
	return half >> CALLTAP_RECORD_ID_BITS >= CALLTAP_REC_BRIEF_ENTRY;
}

/* The kind of record that a brief one, which is no PAD, is without a time: ENTRY, EXIT or TAIL; and its function. */
static inline enum calltap_record_kind calltap_record_brief_kind(uint32_t half)
{
	if (half >> CALLTAP_RECORD_ID_BITS == CALLTAP_REC_BRIEF_EXIT)
		return CALLTAP_REC_EXIT;
	return half & CALLTAP_BRIEF_TAIL ? CALLTAP_REC_TAIL : CALLTAP_REC_ENTRY;
}

static inline uint32_t calltap_record_brief_id(uint32_t half)
{
	return half & (CALLTAP_BRIEF_LEAF - 1);
}

/* True if a brief record, which is no PAD, is the ENTRY of a leaf. */
static inline int calltap_record_brief_leaf(uint32_t half)
{
	return half >> CALLTAP_RECORD_ID_BITS == CALLTAP_REC_BRIEF_ENTRY && half & CALLTAP_BRIEF_LEAF;
}

/* True if a word where a head may be holds brief records, one or two halves of it. */
static inline int calltap_record_has_brief(uint64_t word)
{
	return calltap_record_is_brief((uint32_t)(word >> 32)) ||
	       (!(word >> 32) && calltap_record_is_brief((uint32_t)word));
}

static inline uint32_t calltap_event_id(uint32_t type, uint32_t words)
{
	return type << 12 | words;
}

/* The type that an EVENT's id names. */
static inline uint32_t calltap_event_type(uint32_t id)
{
	return id >> 12 & CALLTAP_EVENT_TYPE_MAX;
}

/* The size in words that an EVENT's id names; 0 when no event can have that size. */
static inline uint32_t calltap_event_words(uint32_t id)
{
	uint32_t words = id & 0xfff;

	return words <= CALLTAP_EVENT_WORDS_MAX ? words : 0;
}

/*
 * The step from a record's head to the next record, in 64-bit words: the one rule for all readers. 1 for a word that is
 * no head, for a kind that the reader does not know, and for an EVENT whose size makes no sense.
 */
static inline unsigned calltap_record_words(uint64_t word)
{
	const unsigned two = 1u << CALLTAP_REC_CALL | 1u << CALLTAP_REC_TIME | 1u << CALLTAP_REC_STACK |
			     1u << CALLTAP_REC_LOST | 1u << CALLTAP_REC_WAIT | 1u << CALLTAP_REC_RISE |
			     1u << CALLTAP_REC_OPEN;
	unsigned kind = calltap_record_kind(word), words = 0;

	if (kind == CALLTAP_REC_EVENT)
		words = calltap_event_words(calltap_record_id(word));
	return words ? words : 1 + (two >> kind & 1);
}

/* True if trace files have records of this kind; TIME and OPEN are in rings only. */
static inline int calltap_record_is_filed(unsigned kind)
{
	const unsigned filed = 1u << CALLTAP_REC_ENTRY | 1u << CALLTAP_REC_EXIT | 1u << CALLTAP_REC_CALL |
			       1u << CALLTAP_REC_UNWIND | 1u << CALLTAP_REC_STACK | 1u << CALLTAP_REC_LOST |
			       1u << CALLTAP_REC_WAIT | 1u << CALLTAP_REC_TAIL | 1u << CALLTAP_REC_LANDING |
			       1u << CALLTAP_REC_RISE | 1u << CALLTAP_REC_EVENT | 1u << CALLTAP_REC_BRIEF_ENTRY |
			       1u << CALLTAP_REC_BRIEF_EXIT;

	return filed >> kind & 1;
}

/* Put size bytes into the words behind an EVENT's head; returns how many words that are. */
static inline uint32_t calltap_event_pack(uint64_t *words, const void *bytes, uint32_t size)
{
	const unsigned char *from = (const unsigned char *)bytes;
	uint32_t at = 0, count = 0;

	while (at < size) {
		uint64_t word = 0;
		uint32_t shift = 0;

		for (; at < size && shift < 8 * CALLTAP_EVENT_WORD_BYTES; shift += 8)
			word |= (uint64_t)from[at++] << shift;
		words[count++] = word;
	}
	return count;
}

/* The bytes of a mark's text that are recorded: at most CALLTAP_EVENT_MARK_BYTES, and whole characters. */
static inline uint32_t calltap_event_text_size(const char *text)
{
	uint32_t size = 0;

	while (size < CALLTAP_EVENT_MARK_BYTES && text[size])
		size++;
	if (!text[size])
		return size;
	/* Go back to the first byte of the character that is cut; a text that is no UTF-8 is cut where it is. */
	for (uint32_t i = size; size - i < 4 && i; i--)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return i;
	return size;
}

#endif
