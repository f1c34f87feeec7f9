/*
 * The map in which programs count calls by what they are made with (program.h, helper COUNT).
 *
 * A memfd that the tool makes, and that all processes of a session write to (COUNTS, control.h).  Its size and shape
 * never change.  Nobody trusts what stands in there: a process writes within the map whatever another has left, and the
 * tool takes counts as they are.
 *
 * Stacks of calls are in there, too: each frame is a slot whose key is a struct calltap_map_frame.  A stack's number is
 * that of its innermost frame: its slot's place, + 1.
 *
 * A slot is empty, then claimed by who writes its key, then ready; it stays so.  Who meets a slot that is claimed looks
 * farther on: so a key may have several slots, and its count is the sum of theirs.
 *
 * With CALLTAP_COUNTS_NEWEST (control.h) a key for which there is no room takes a ready slot of which no call has come
 * for longest: the slot is claimed, its counts go to `others`, and it is another key's with the next generation.
 * The state and each count have their slot's generation: so nobody adds to another key's count.
 *
 * Behind the keys lie arrays, of which programs look up a value by its index (helper LOOKUP).  A value is there once
 * for each lane, and programs change it by atomic instructions alone: so all lanes' values together are the value.
 *
 * Spans are a hash of keys that come and go: helper UPDATE gives a key a value, and helper DELETE takes the key away
 * and tells the value.  A span's slot is empty, then claimed by who writes its key and value, then ready, then empty
 * again; its state has a number that each step raises.
 */
#ifndef CALLTAP_ABI_MAPS_H
#define CALLTAP_ABI_MAPS_H

#include <stdint.h>

#define CALLTAP_MAP_SLOTS     65536u
#define CALLTAP_MAP_PROBES    64u  /* slots that a key may be in, from the one of its hash on */
#define CALLTAP_MAP_KEY	      120u /* bytes of a key at the most */
#define CALLTAP_MAP_KEY_WORDS (CALLTAP_MAP_KEY / 8u)
#define CALLTAP_MAP_LANES     8u /* counts of a slot, so that threads do not meet at one */

/* Arrays: the numbers by which programs name them. */
enum calltap_map_number {
	CALLTAP_MAP_RANGES, /* CALLTAP_MAP_RANGES_MAX counts of 8 bytes: how many numbers were in which range */
	CALLTAP_MAP_SUMS,   /* a struct calltap_map_sum for each slot, of the numbers that came with its key */
	CALLTAP_MAP_SPANS,  /* no array: keys of 8 bytes, each process' own, with values of 8 bytes */
	CALLTAP_MAPS
};

#define CALLTAP_MAP_RANGES_MAX 1024u

/*
 * Numbers that came with a key.  Of the largest and the least there is a number without sign that only grows, from 0
 * on: so `most` is the largest one, and `least` has all bits of the least one inverted.  Numbers with sign have their
 * highest bit inverted there.
 */
struct calltap_map_sum {
	uint64_t count, sum;
	uint64_t most, least;
	uint64_t missed;     /* how often `most` or `least` were changed by others too often to be raised */
	uint64_t numberless; /* calls whose number could not be read */
	uint64_t has_sign;   /* 1: the numbers have one */
	uint64_t reserved;
};

/* A slot of the hash of spans: a time that a program measures, from its beginning until its end is called. */
struct calltap_map_span {
	uint64_t state;	 /* an enum calltap_map_span_state, and above it how often the slot has changed */
	uint64_t key[2]; /* the program's, and calltap_map_process() */
	uint64_t value;
};

enum calltap_map_span_state { CALLTAP_MAP_SPAN_EMPTY, CALLTAP_MAP_SPAN_CLAIMED, CALLTAP_MAP_SPAN_READY };

#define CALLTAP_MAP_SPAN_KIND	3u	/* the bits of that in the state */
#define CALLTAP_MAP_SPAN_SLOTS	262144u /* so that a quarter of them may be in use, and hardly any key has no room */
#define CALLTAP_MAP_SPAN_PROBES 16u	/* slots that a span may be in, from the one of its key's hash on */

/* The state of a ready slot once the span was taken away. */
static inline uint64_t calltap_map_span_emptied(uint64_t state)
{
	return (state & ~(uint64_t)CALLTAP_MAP_SPAN_KIND) + CALLTAP_MAP_SPAN_KIND + 1 + CALLTAP_MAP_SPAN_EMPTY;
}

/*
 * The process of a span: its id, and the lower bits of its image's (struct calltap_msg_hello), which forked children
 * have from their parent, and an executed program has not.
 */
static inline uint64_t calltap_map_process(uint64_t pid, uint64_t image_id)
{
	return (uint32_t)pid | image_id << 32;
}

/* A slot's state.  Ready: the upper bytes of the key's hash, its size, and this. */
#define CALLTAP_MAP_CLAIMED   1u
#define CALLTAP_MAP_READY     2u
#define CALLTAP_MAP_KIND      0xffu
#define CALLTAP_MAP_SIZE_AT   8
#define CALLTAP_MAP_HASH_BITS (~(uint64_t)0xffff)

/*
 * With CALLTAP_COUNTS_NEWEST the state has the upper bits of the hash above, and then the generation; a count has the
 * generation above its number.
 */
#define CALLTAP_MAP_NEWEST_HASH_BITS (~(uint64_t)0 << 40)
#define CALLTAP_MAP_GENERATION_AT    16
#define CALLTAP_MAP_GENERATIONS	     0xffffffu
#define CALLTAP_MAP_COUNT_GENERATION 40
#define CALLTAP_MAP_COUNT_MOST	     (((uint64_t)1 << CALLTAP_MAP_COUNT_GENERATION) - 1)

static inline uint32_t calltap_map_generation(uint64_t state)
{
	return (uint32_t)(state >> CALLTAP_MAP_GENERATION_AT) & CALLTAP_MAP_GENERATIONS;
}

#define CALLTAP_MAP_FRAME 0xffu /* the size in the state of a frame's slot, for it is no key that is counted */

/* Frames of a stack at the most, innermost ones, without the process. */
#define CALLTAP_MAP_FRAMES 48u

struct calltap_map_frame {
	uint32_t outer; /* the number of the frame outside of this one; 0: there is none, and this is a process: */
	uint32_t pid;
	uint64_t address; /* the return address; of a process, a time in it, in ticks of the trace's clock */
};

/* In place of a return address that a traced function has got: nobody knows it here. */
#define CALLTAP_MAP_TRACED 1u
/* As the outermost frame: there are more of them. */
#define CALLTAP_MAP_MORE 2u

struct calltap_map_slot {
	uint64_t state;
	uint64_t key[CALLTAP_MAP_KEY_WORDS]; /* zeros behind its size */
};

struct calltap_map {
	uint64_t others; /* calls whose key had no room, or has none any more */
	uint64_t reserved[7];
	uint64_t taken; /* with CALLTAP_COUNTS_NEWEST: how many slots were taken so far, over and over */
	uint64_t reserved_too[7];
	/*
	 * How many calls ended a span that had not begun, began one that had begun already, and found no empty slot.
	 */
	uint64_t not_begun, begun_again, roomless;
	uint64_t reserved_last[493];
	struct calltap_map_slot slots[CALLTAP_MAP_SLOTS];
	uint64_t counts[CALLTAP_MAP_LANES][CALLTAP_MAP_SLOTS];
	uint64_t ranges[CALLTAP_MAP_LANES][CALLTAP_MAP_RANGES_MAX];
	uint64_t used[CALLTAP_MAP_SLOTS]; /* with CALLTAP_COUNTS_NEWEST: what `taken` was at the slot's last call */
	struct calltap_map_sum sums[CALLTAP_MAP_LANES][CALLTAP_MAP_SLOTS];
	struct calltap_map_span spans[CALLTAP_MAP_SPAN_SLOTS];
};

_Static_assert(sizeof(struct calltap_map_span) == 32, "ABI");
_Static_assert(sizeof(struct calltap_map_sum) == 64, "a cache line of the thread's own");
_Static_assert(sizeof(struct calltap_map_slot) == 128 && sizeof(struct calltap_map) % 4096 == 0, "ABI");

#endif
