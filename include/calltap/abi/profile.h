/*
 * Tables and events that tracer "profile" and triggers share with the tool, in place of records.
 *
 * Profile: in mode CALLTAP_MODE_PROFILE the data area of a ring (ring.h: the
 * sub_size * sub_count bytes behind its page) is a table of one thread's.  The
 * ring's `own` is a struct calltap_profile_shape, which says how large it is:
 *
 *     struct calltap_profile
 *     struct calltap_profile_entry [shape->functions]      by function id
 *     struct calltap_profile_caller [shape->callers]       a hash of addresses, a power of two
 *     struct calltap_profile_histogram [shape->histograms] handed out one after the other
 *
 * which calltap_profile_at_*() compute.  All zeros is an empty table.  The file is sparse: memory that no call has
 * touched costs nothing.
 *
 * The thread that holds the ring writes the table; the tool reads it meanwhile, each 8-byte word by one load.  Sums and
 * counts only grow, also when the ring goes to another thread (ring->owner counts up): a reader takes differences and
 * never clears.  Words that belong together may be of different moments.  The histograms lag by one call: `pending`
 * tells which bucket has one more.
 *
 * Durations are ticks of the target's clock.  As in `calltap report`, `total` has a recursive function's outermost call
 * alone; `self`, `calls`, `max` and the histogram have every call.  A call is counted when it ends.  A call that ended
 * without returning (longjmp, exception) is closed with the time of the event that showed it, if its place on the stack
 * still tells which function it was; else it is in `vanished` alone.
 *
 * Triggers: a file of its own (struct calltap_triggers), written by all threads.
 */
#ifndef CALLTAP_ABI_PROFILE_H
#define CALLTAP_ABI_PROFILE_H

#include <stdint.h>

#include <calltap/abi/ring.h>

/*
 * Four buckets an octave.  Durations below 4 ticks have a bucket each; else bucket 4 * (e - 1) + q is
 * [(4 + q) << (e - 2), (5 + q) << (e - 2)), e >= 2: at most a quarter wide.  The last bucket has all longer durations,
 * too.
 */
#define CALLTAP_PROFILE_BUCKETS 160u

#define CALLTAP_MODE_PROFILE CALLTAP_MODE_OWN

/* struct calltap_ring.own of tracer profile. */
struct calltap_profile_shape {
	/* Set by the tool before the arena is shared, then constant. */
	uint32_t functions; /* entries of the table */
	uint32_t callers;   /* places in its hash of callers, a power of two */
	uint32_t histograms;
	/* Written by the tool. */
	uint32_t watch; /* id + 1 of the function whose callers are counted, 0 = none */
	uint32_t reserved[12];
};

static inline struct calltap_profile_shape *calltap_profile_shape(struct calltap_ring *ring)
{
	return (struct calltap_profile_shape *)(void *)ring->own;
}

struct calltap_profile {
	uint64_t beyond;	  /* calls of functions that have no entry: id >= shape->functions */
	uint64_t vanished;	  /* calls that ended in a way that does not tell their function */
	uint64_t backward;	  /* calls that ended before they began by the clock; counted as of 0 ticks */
	uint64_t uncalled;	  /* calls of the watched function whose caller found no room in the hash */
	uint64_t histograms_used; /* but for number 0; may exceed shape->histograms: so many found none left */
	uint32_t watched;	  /* id + 1 of the function whose callers are counted: shape->watch at its last call */
	uint32_t reserved0;
	uint64_t pending; /* byte offset of the bucket to count the thread's last call in, 0 = none */
	uint64_t reserved;
};

struct calltap_profile_entry {
	uint64_t calls;	    /* calls that have ended */
	uint64_t total;	    /* ticks, outermost calls only */
	uint64_t self;	    /* ticks, without the callees' that are traced */
	uint64_t max;	    /* ticks of the longest call */
	uint64_t outer;	    /* not 0: an outermost call is open (or was left unnoticed) */
	uint64_t since;	    /* ticks when the outermost call began */
	uint64_t histogram; /* byte offset in the data area; 0 = none yet */
	uint64_t unwound;   /* calls that ended without returning; `calls` has them, too */
};

struct calltap_profile_histogram {
	uint64_t calls[CALLTAP_PROFILE_BUCKETS];
};

/* Calls of the watched function, by the address that they return to.  A recursive call has no total. */
struct calltap_profile_caller {
	uint64_t address; /* 0 = free */
	uint64_t calls;
	uint64_t total;
	uint64_t reserved;
};

static inline uint64_t calltap_profile_at_entry(uint32_t id)
{
	return sizeof(struct calltap_profile) + (uint64_t)id * sizeof(struct calltap_profile_entry);
}

static inline uint64_t calltap_profile_at_caller(uint32_t functions, uint32_t i)
{
	return calltap_profile_at_entry(functions) + (uint64_t)i * sizeof(struct calltap_profile_caller);
}

/* Histogram 0 is for all functions that found none left. */
static inline uint64_t calltap_profile_at_histogram(uint32_t functions, uint32_t callers, uint32_t i)
{
	return calltap_profile_at_caller(functions, callers) + (uint64_t)i * sizeof(struct calltap_profile_histogram);
}

/* Bytes of the whole table: the data area has as many at least. */
static inline uint64_t calltap_profile_size(uint32_t functions, uint32_t callers, uint32_t histograms)
{
	return calltap_profile_at_histogram(functions, callers, histograms);
}

static inline uint32_t calltap_profile_bucket(uint64_t ticks)
{
	uint32_t e = 0, bucket;

	if (ticks < 4)
		return (uint32_t)ticks;
	for (uint32_t step = 32; step; step /= 2)
		if (ticks >> step >> e)
			e += step;
	bucket = 4 * (e - 1) + ((uint32_t)(ticks >> (e - 2)) & 3);
	return bucket < CALLTAP_PROFILE_BUCKETS ? bucket : CALLTAP_PROFILE_BUCKETS - 1;
}

/* The shortest duration of a bucket, in ticks; also for CALLTAP_PROFILE_BUCKETS, where the last one would end. */
static inline uint64_t calltap_profile_bucket_start(uint32_t bucket)
{
	return bucket < 4 ? bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

/*
 * Triggers: a memfd that comes with TRIGGERS (control.h), mapped by every
 * process of the session.  Sites with CALLTAP_SITE_TRIGGER look into limits[id].
 *
 *     struct calltap_triggers, struct calltap_limit [functions], struct calltap_event [slots]
 */
#define CALLTAP_TRIGGERS_MAGIC 0x5254544cu /* "LTTR" */

/* An entry has one event at most, OFTEN before ENTERED, and so has an exit, LONGER before LEFT. */
enum calltap_event_kind {
	CALLTAP_EVENT_LONGER = 1,  /* a call took longer than `ticks` */
	CALLTAP_EVENT_ENTERED = 2, /* the function was called */
	CALLTAP_EVENT_LEFT = 4,	   /* the function returned */
	CALLTAP_EVENT_OFTEN = 8,   /* the function was called `often` times within `window` ticks */
	CALLTAP_EVENT_THREW = 16,  /* an exception ended a call */
	/* Values of a call are what was asked for (helper TELL, program.h); besides the others, at its entry or exit.
	 */
	CALLTAP_EVENT_CHOSEN = 32,
};

#define CALLTAP_EVENT_RECORDED 1u /* by the first instance; else the call is one of further instances alone */

struct calltap_limit {
	/* Set by the tool, at any time. */
	uint64_t ticks;	 /* CALLTAP_EVENT_LONGER: calls longer than this; 0 = none */
	uint64_t window; /* CALLTAP_EVENT_OFTEN, ticks */
	uint32_t often;
	uint32_t kinds; /* enum calltap_event_kind, ored: what else is wanted.  ENTERED and OFTEN need FULL_ENTRY, LEFT
			   FULL_EXIT, CHOSEN both */
	/* Written by the threads that call the function. */
	uint64_t last; /* ticks at the last event of an entry */
	uint64_t window_start;
	uint64_t window_calls;
	uint64_t held_back;   /* events that came within min_gap of the last one */
	uint64_t last_exit;   /* ticks at the last event of an exit */
	uint64_t last_chosen; /* CHOSEN: since when `chosen` is about events that came within min_gap */
	uint64_t chosen;      /* bits that were told since */
	uint64_t reserved[6];
};

/* Event n (from 0) lies at index n % slots; a reader has it whole if `number` is n + 1 before and after. */
struct calltap_event {
	uint64_t number;
	uint32_t function;
	uint32_t kind; /* enum calltap_event_kind */
	uint32_t tid, pid;
	uint64_t entry_ticks; /* when the call began, 0 = not known */
	uint64_t exit_ticks;  /* when the call ended, 0 = not yet */
	uint32_t flags;	      /* CALLTAP_EVENT_RECORDED */
	uint32_t chosen;      /* CHOSEN: bit N for the number N that helper TELL was told */
	uint64_t reserved[2];
};

struct calltap_triggers {
	/* Set by the tool before the file is shared. */
	uint32_t magic;
	uint32_t functions;
	uint32_t slots; /* a power of two */
	uint32_t reserved0;
	uint64_t min_gap; /* ticks between events of a function's entries, or exits; rare events are exempt */
	uint64_t reserved1[5];
	/* Written by threads of the target. */
	uint64_t taken; /* events so far */
	uint64_t lost;	/* events that found no room: the tool had not read in time */
	/* Written by the tool. */
	uint64_t read; /* events that the tool has read */
	uint64_t reserved2[5];
};

static inline uint64_t calltap_triggers_at_limit(uint32_t id)
{
	return sizeof(struct calltap_triggers) + (uint64_t)id * sizeof(struct calltap_limit);
}

static inline uint64_t calltap_triggers_at_event(uint32_t functions, uint32_t i)
{
	return calltap_triggers_at_limit(functions) + (uint64_t)i * sizeof(struct calltap_event);
}

_Static_assert(sizeof(struct calltap_profile_shape) == sizeof(((struct calltap_ring *)0)->own), "ABI");
_Static_assert(sizeof(struct calltap_profile) == 64, "ABI");
_Static_assert(sizeof(struct calltap_profile_entry) == 64, "ABI");
_Static_assert(sizeof(struct calltap_profile_histogram) == 1280, "ABI");
_Static_assert(sizeof(struct calltap_profile_caller) == 32, "ABI");
_Static_assert(sizeof(struct calltap_limit) == 128, "ABI");
_Static_assert(sizeof(struct calltap_event) == 64, "ABI");
_Static_assert(sizeof(struct calltap_triggers) == 128, "ABI");

#endif
