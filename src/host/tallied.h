/*
 * Counts by value: a row for each key that the targets' programs have counted calls under (abi/maps.h).
 *
 * Callers: the values room, which reads it, and the view room.  Context: host.
 */
#ifndef HOST_TALLIED_H
#define HOST_TALLIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/maps.h>

#define BUCKETS_MAX    1000u
#define BUCKET_LOW_MAX ((int64_t)1 << 60) /* of `low`, both ways */

enum bucket_kind { BUCKET_NONE, BUCKET_LOG2, BUCKET_LINEAR };

/* How numbers are counted by ranges. */
struct buckets {
	uint8_t kind;  /* enum bucket_kind; NONE: each number by itself */
	int64_t low;   /* BUCKET_LINEAR: where the first one begins */
	int32_t step;  /* how wide each is */
	int32_t count; /* up to BUCKETS_MAX */
};

/* Numbers that came with calls, as in struct calltap_map_sum. */
struct tallied_sum {
	bool has_sign;
	uint64_t count, sum; /* the sum without what has no room in 64 bits */
	uint64_t most, least;
	uint64_t missed, numberless;
};

static inline uint64_t tallied_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Make one of two. */
static inline void tallied_sum_merge(struct tallied_sum *out, const struct tallied_sum *other)
{
	out->has_sign |= other->has_sign;
	out->count = tallied_add(out->count, other->count);
	out->sum += other->sum;
	out->most = other->most > out->most ? other->most : out->most;
	out->least = other->least > out->least ? other->least : out->least;
	out->missed = tallied_add(out->missed, other->missed);
	out->numberless = tallied_add(out->numberless, other->numberless);
}

/* Calls that were made with the same values. */
struct tallied {
	uint64_t key[CALLTAP_MAP_KEY_WORDS]; /* the bytes of an event, with zeros behind its size */
	uint32_t size;
	uint32_t type;	/* of the event; 0: it has no values but the function's id, which is its first four bytes */
	uint32_t stack; /* the number of the stack from which the calls come, with has_stack; 0: it had no room */
	bool has_stack;
	uint64_t count;
	struct tallied_sum sum; /* where numbers are added up */
};

/* Of a histogram: counts by bucket, the first of what is below all, the last of what is above. */
struct tallied_ranges {
	uint64_t counts[BUCKETS_MAX + 2];
	uint64_t numberless; /* calls whose number could not be read */
};

/* Times between calls, in ticks of the trace's clock; `ranges` has them by powers of two. */
struct tallied_spans {
	struct tallied_sum ticks;
	uint64_t open;				   /* begun and not ended */
	uint64_t not_begun, begun_again, roomless; /* as in struct calltap_map */
};

#define TALLIED_FRAMES (CALLTAP_MAP_SLOTS + 1) /* numbers of frames, of which 0 is none */

struct tallies {
	struct tallied *list; /* for free() */
	size_t count;
	struct calltap_map_frame *frames; /* by their numbers, for free(); untrusted: `outer` may be anything */
	uint64_t others;		  /* calls for whose values there was no room */
	struct tallied_ranges ranges;
	struct tallied_spans spans;
};

#endif
