/*
 * The probe's state: one context for the process, one thread block in thread-local storage.
 *
 * Context: probe.  The control side writes only where said; everything that the hot path touches is the thread's own.
 *
 * Words of this room (doc/glossary.md has the rest):
 *   site       the place in a function that can be made to jump to its stub
 *   stub       the small code that a site jumps to, one per traced function; it calls a recorder, then the body
 *   row        struct calltap_handled of a function: bits that say who wants its calls
 *   frame      a traced call that has not ended; its slot names it
 *   slot       where on a stack the return address lies (link register: the word below the caller's frame);
 *              in a ring, the place of one record
 *   plane      memory parallel to all stacks: a slot's word there has the slot's address with fixed bits changed
 *   mirror     the plane of return addresses
 *   link       a word of the plane beside it: the slot of the next outer frame on the stack, and flags (frames.h)
 *   granule    1 MiB of addresses, the piece in which planes are mapped
 *   instance   one of several recordings of the process; each has a set of rings, the session's is set 0
 *   share      a thread's place in the rings of a further instance (set 1 and up)
 */
#ifndef PROBE_THREAD_H
#define PROBE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/profile.h>
#include <calltap/abi/times.h>
#include <probe/stacks.h>
#include <ring/writer.h>
#include <thread_block.h>

#define PROBE_ARENAS  32
#define PROBE_RINGS   (PROBE_ARENAS * CALLTAP_ARENA_RINGS)
#define PROBE_REGIONS 4096
#define PROBE_SETS    16 /* sets of rings: the first instance's, and those of further ones */

#define PROBE_NO_GRANULE (~(uint64_t)0) /* no granule; 0 is one: programs may lie in the first megabyte */

/*
 * A thread's table of sums, in place of records (profile.h).  A table of zeros sends every call to C. profile.S knows
 * the fields.  A fork in a handler makes it a table of zeros between any two instructions of a recorder, so `end` is
 * loaded behind what it tells of.
 */
struct probe_table {
	uint64_t functions; /* entries, 0 = there is no table */
	uint64_t entries;   /* address of the first entry */
	uint64_t data;	    /* address of the data area, struct calltap_profile */
	uint64_t first;	    /* byte offset of histogram 0 */
	uint64_t span;	    /* bytes of all histograms, less 7: a bucket is at first + less than this */
	uint64_t claimed;   /* clock when the thread took the table: calls entered before are not counted in it */
	uint64_t end;	    /* address behind the last entry */
	uint64_t watch;	    /* with `--time adaptive` (ticked.S): address of the watched function's entry, 0 = none */
	struct calltap_ring *ring;
	uint64_t reserved[7];
};

/* A region of stubs. */
struct probe_region {
	uint64_t lo, hi; /* around its stubs */
};

static inline bool probe_region_has(const struct probe_region *region, uint64_t address)
{
	return address >= region->lo && address < region->hi;
}

/* A thread's place in the rings of a further instance. */
struct probe_share {
	struct ring_writer *writer; /* never NULL, as probe_thread.writer */
	uint32_t generation;	    /* struct probe_set.on when it was taken: of no use to the next instance */
	uint32_t attach_try;	    /* as in struct probe_thread */
	uint32_t depth;		    /* open frames whose links have the bit of this set */
	bool quiet_root;	    /* the frame at `tree` has no ENTRY, or not under its present name */
	uint64_t tree;		    /* slot of the -g root that the thread is in, 0 = none */
	uint64_t gate;		    /* slot of an open --no-graph frame, which has no ENTRY; 0 = none */
	uint64_t tick;		    /* as probe_thread.tick, of the records in this set's ring; 0 = none was seen */
};

/* Every thread's starts as PROBE_THREAD_NEW; assembly (entry.S and others) knows some of the fields (offsets.h). */
struct probe_thread {
	struct ring_writer *writer;    /* never NULL: the nil writer until the thread holds a ring */
	uint64_t granule;	       /* slots in this granule of addresses have a mirror (mirror.c) */
	struct probe_stack *stack;     /* of the thread's last event; never NULL: probe_stack_none before any event */
	uint64_t gate;		       /* without a tree filter: gated stubs skip calls whose slot lies below this */
	uint64_t timed;		       /* slots in this granule have the planes of timed frames, too */
	struct probe_table *table;     /* never NULL: probe_table_none until the thread holds one */
	struct probe_handled *running; /* handlers.h: the call whose handlers run, NULL = none */
	uint64_t runs;		       /* how often the thread has begun to run handlers */
	uint64_t tree_gate;	       /* `gate` under a tree filter (-g); ~0 outside all trees, filter or not */
	uint64_t handled;	       /* slots in this granule have the planes of dispatched frames, too */
	uint64_t tree;		       /* slot of the -g root that the thread is in, 0 = none */
	uint32_t tree_word;	       /* word of the function that the root has tail-called, 0 = none */
	uint64_t root_gate;	       /* -g roots whose slot lies below this begin no tree */
	struct probe_stack *signal;    /* the stack that the thread's signal handlers run on, NULL = none */
	uint32_t depth;		       /* open frames that were entered while there was a depth limit */
	uint32_t attach_try;	       /* until when the thread does not look for a ring again (put_off()) */
	uint32_t switches;	       /* changes of `stack` */
	uint32_t opening;	       /* 1: a sub-buffer is being opened where signals cannot be blocked */
	uint64_t tick;		       /* brief.h: the tick that the thread has seen */
	uint32_t sample;	       /* calls of brief functions up to the next one that has times */
	uint32_t seed;		       /* of the random number that `sample` begins with */
	/* The stubs that the last tail call came from which C has recorded; never NULL.  One load finds both bounds. */
	const struct probe_region *region;
	struct probe_share further[PROBE_SETS - 1]; /* by set, from set 1 on */
	uint64_t sharing;			    /* calls of probe_share_begin() without probe_share_end() */
	uint32_t until_sample; /* so many brief calls of further instances until one that has its times */
	uint32_t sample_seed;  /* random */
	uint32_t losses;       /* how often records were lost in the session's ring, one after the other */
	uint32_t continues;    /* 1: the thread has a new ring, and goes on with frames from before it */
};
#define PROBE_THREAD_NEW                                                                                               \
	{                                                                                                              \
		.writer = &probe_writer_none, .granule = PROBE_NO_GRANULE, .stack = &probe_stack_none,                 \
		.region = &probe_region_none, .timed = PROBE_NO_GRANULE, .handled = PROBE_NO_GRANULE,                  \
		.table = &probe_table_none, .tree_gate = ~(uint64_t)0,                                                 \
		.further = {[0 ... PROBE_SETS - 2] = {.writer = &probe_writer_none}},                                  \
	}
extern struct ring_writer probe_writer_none __attribute__((visibility("hidden")));
extern const struct probe_region probe_region_none __attribute__((visibility("hidden")));
extern struct probe_table probe_table_none __attribute__((visibility("hidden")));
extern __thread struct probe_thread probe_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread's block. */
static inline struct probe_thread *probe_self(void)
{
	return arch_thread_block(probe_thread);
}

/* The rings of one instance; set 0 is the session's. */
struct probe_set {
	uint32_t on;		  /* set 1 and on: the instance's generation while it records, else 0 */
	uint32_t calls;		  /* set 1 and on: 1 = entries only, with the caller */
	uint32_t frames;	  /* set 1 and on: 1 = an ENTRY is followed by where its frame lies */
	uint32_t brief;		  /* set 1 and on: 1 = calls of brief functions have no times (halves.h) */
	uint32_t trees;		  /* as depth_max; 1: calls are recorded below -g roots alone */
	uint32_t filtered;	  /* as depth_max; 1: functions may have roles (struct calltap_roles) */
	uint32_t depth_max;	  /* 0 = no limit; the control side may change it at any time */
	uint64_t threshold_ticks; /* 0 = no limit; the control side may change it at any time */
	uint32_t arena_count;
	uint32_t claim_vain; /* arena_count when a thread last waited for a ring in vain */
	uint32_t owners;     /* claims so far: struct calltap_ring.owner */
	uint32_t taken_over; /* place behind the last ring that was taken over from a thread that has ended */
	struct calltap_arena *arenas[PROBE_ARENAS];
	uint32_t traded[PROBE_RINGS];			      /* by a ring's place: place ^ index of its writer */
	_Alignas(64) struct ring_writer writers[PROBE_RINGS]; /* handed out from probe_context.writers on */
};

/* The kernel zeroes this in a forked child (MADV_WIPEONFORK), which so learns that it is one. */
struct probe_wiped {
	uint32_t alive;	   /* 1 in the process that has set this up */
	uint32_t pid;	   /* the process that has set this up */
	uint32_t starting; /* futex word: 1 while a thread of a forked child sets this up, 2 after */
	int32_t calling;   /* threads between probe_calls_begin() and _end() */
	uint32_t served;   /* 1: this process has a control thread, or had one */
	uint32_t mapping;  /* threads that map planes of a granule (mirror.c) */
	uint64_t epoch;	   /* a time in this process, by which its stacks in a map are known; 0: none is (stack_id.c) */
	uint32_t known; /* the process' id, in which libc's notes of its threads' ids are right; 0: look (caller.c) */
	struct probe_thread *threads[PROBE_RINGS]; /* by index of writers of set 0; NULL = no thread yet */
	uint32_t plain[PROBE_SETS]; /* by set: `on`, of an instance of function_graph without filters or limits; else 0
				     */
	uint32_t brief[PROBE_SETS]; /* by set: as `plain`, where calls may be brief; `plain` is 0 then */
	struct probe_set sets[PROBE_SETS];
	_Alignas(64) struct probe_table tables[PROBE_RINGS]; /* by index of writers of set 0 */
};

struct probe_context {
	/*
	 * Set by the control thread before `enabled`.  threshold_ticks, depth_max, tree_filter, timed and handled may
	 * change later, each by itself.
	 */
	struct probe_wiped *wiped;
	struct ring_shared shared;
	uint64_t threshold_ticks;
	uint64_t main_stack_end;  /* above the initial thread's frames */
	uint64_t main_stack_size; /* at the most: other mappings are farther away */
	void *main_thread;	  /* the initial thread's thread pointer */
	uint32_t depth_max;
	uint32_t tree_filter;
	uint32_t timed;	       /* 1: frames have the planes of timed frames */
	uint32_t handled;      /* 1: there are handlers (handlers.h) */
	uint32_t profile;      /* 1: tables of sums, no records */
	uint32_t enabled;      /* 0: nothing is recorded; frames that are open still return right */
	uint32_t region_count; /* appended to by the control side: region first, count after (release) */
	struct probe_region regions[PROBE_REGIONS];
	/* Called with signals blocked, in a forked child's first record; sets up wiped anew or leaves enabled 0. */
	void (*on_new_process)(void);
	uint32_t locks;	     /* 1: the program has memory locked that is mapped from now on (mlockall()) */
	uint32_t rises;	     /* 1: there may be frames from before the trace: tell how far up each stack is seen */
	uint32_t tells_open; /* 1: a flight recorder, which tells of open frames (open.h) */
	struct {
		uint32_t first; /* of this process; lower ones are those of processes that it was forked from */
		uint32_t base;	/* of this process and instance; lower ones are not handed out */
		uint32_t used;	/* highest writer handed out + 1 */
	} writers[PROBE_SETS];
	int32_t tid_offset; /* from the thread pointer to where libc keeps a thread's id, 0 = not known */
};
extern struct probe_context probe_context __attribute__((visibility("hidden")));
/* Read by each call of a function whose site has CALLTAP_SITE_BRIEF (brief.h); NULL while there is no such site. */
extern const struct calltap_times *probe_times __attribute__((visibility("hidden")));

static inline struct probe_set *probe_set_at(unsigned set)
{
	return &probe_context.wiped->sets[set];
}

/* Are frames timed whatever triggers there are? */
static inline bool probe_wants_times(void)
{
	return probe_context.profile || probe_context.tells_open;
}

/*
 * A thread calls these around every access to a further instance's rings: the agent unmaps rings only after it has seen
 * every thread outside (agent/instances.c).  Between the two, look at probe_set.on first.  A signal handler that comes
 * in between has pairs of its own; hence a count, and one instruction each.
 */
static inline void probe_share_begin(struct probe_thread *thread)
{
	arch_local_count(&thread->sharing, 1);
}

static inline void probe_share_end(struct probe_thread *thread)
{
	arch_local_count(&thread->sharing, -1);
}

/* The region whose stubs address is in; NULL: none.  A return address in a stub belongs to a traced frame. */
const struct probe_region *probe_region_of(uint64_t address);
/* Map the mirror and link planes around slot, if need be; true when slot can use them. */
bool probe_mirror_cover(struct probe_thread *thread, uint64_t slot);
/*
 * Planes may take so many bytes more from now on, and no more than `all` with those that they have; UINT64_MAX: there
 * is no such limit.  Called by the control thread.
 */
void probe_planes_limit(uint64_t more, uint64_t all);
/* True if slot has its mirror already. */
bool probe_mirror_is_covered(uint64_t slot);
/* Map the planes of timed frames around slot, which has its mirror, if need be; true when slot can use them. */
bool probe_timed_cover(struct probe_thread *thread, uint64_t slot);
bool probe_timed_is_covered(uint64_t slot);
/* As the two before, for the planes of dispatched frames. */
bool probe_handled_cover(struct probe_thread *thread, uint64_t slot);
bool probe_handled_is_covered(uint64_t slot);
/*
 * A slow path calls these around its system calls: the thread's signals are blocked in between.  False: the program has
 * shut itself into a sandbox where a system call of the agent's could be its end; make none, and do not call
 * probe_calls_end().
 */
bool probe_calls_begin(uint64_t *signals) __attribute__((warn_unused_result));
void probe_calls_end(const uint64_t *signals);
/* Give the thread a ring if it has none; true when it has one. */
bool probe_thread_attach(struct probe_thread *thread);
/*
 * Give the thread a ring in a set, 1 or above, if it has none there; true when it has one, and the set's instance
 * records.  Call it between probe_share_begin() and _end().
 */
bool probe_set_attach(struct probe_thread *thread, unsigned set);
/*
 * The tool wants the ring of this writer of the set back: the writer moves to another ring, or stays when there is
 * none.  Signals are blocked, and what was lost or waited is told.
 */
void probe_move_on(unsigned set, struct ring_writer *writer);
/* Count a call that gets no place in the set's rings: the tool tells the user, so that nothing is left out silently. */
void probe_count_untraced(unsigned set);
/* Tell the tool a fact about the process, CALLTAP_NOTE_*: it is read when the process has ended. */
void probe_note(uint32_t bit);
/* False: the thread has lost records and would lose this one, too. */
bool probe_has_room(const struct probe_thread *thread);
/*
 * Record one event; words is 1 or 2.  Opens sub-buffers, marks the clock's
 * high half, counts what is lost.  False: not recorded.
 */
bool probe_record(struct probe_thread *thread, enum calltap_record_kind kind, uint32_t id, unsigned words,
		  uint64_t second);
/* The call's ENTRY has just been lost: its EXIT is not recorded, either, and counts as lost. */
void probe_lose_exit(struct probe_thread *thread);
/* As probe_record() with the time `now`, where the clock's half is the last record's and there is room.  False: nothing
 * was done. */
static inline bool probe_put_usual(struct ring_writer *writer, enum calltap_record_kind kind, uint32_t id, uint64_t now)
{
	uint64_t *slot = writer->time_hi == now >> 32 ? ring_take(writer, 1) : NULL;

	if (slot)
		ring_put(slot, calltap_record_make(kind, id, (uint32_t)now));
	return slot != NULL;
}
/*
 * Take back the ENTRY of function id if it is the last record and the call was shorter than `ticks`; or, where a tail
 * call led to the function, its TAIL and all records of that frame, if all its calls together were shorter.  False: the
 * call needs an EXIT.  Callees' records were taken back before; where one was not, the call is not short.
 */
bool probe_take_back(struct ring_writer *writer, uint32_t id, uint64_t now, uint64_t ticks);
/*
 * Record an event (CALLTAP_REC_EVENT) of a type in a set that the thread is
 * attached to; words are as calltap_event_pack() makes them.  False: not
 * recorded.
 */
bool probe_event(struct probe_thread *thread, unsigned set, uint32_t type, const uint64_t *words, uint32_t count);
/* As probe_record() in a set, 1 or above, that the thread is attached to. */
bool probe_set_record(struct probe_thread *thread, unsigned set, enum calltap_record_kind kind, uint32_t id,
		      unsigned words, uint64_t second);

#endif
