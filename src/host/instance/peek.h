/*
 * A look at the rings of a flight recorder with `--time adaptive`: nobody drains them, and somebody has to see how long
 * calls take.
 *
 * The drainer copies what threads have written since it last looked, and shows the durations to the choice of brief
 * functions (brief/brief.h).  Nothing in a ring is changed, no thread waits or knows of it.  What was overwritten
 * before it was looked at stays unseen: the choice needs no more than a part of the calls.
 * doc/design/flight-recorder.md.  Callers: the drainer, under the session's lock.  Context: host.
 */
#ifndef HOST_INSTANCE_PEEK_H
#define HOST_INSTANCE_PEEK_H

#include <stdint.h>

struct instance;

struct peek {
	uint64_t next_ns, step_ns; /* when the rings are looked at next, and how long after that again */
	uint64_t changes;	   /* brief_changes() at the last look */
	uint32_t at;		   /* the ring to begin with; all rings of the instance are counted through */
	uint64_t *words;	   /* room for a sub-buffer's; NULL = none yet */
};

/* How far a ring was looked at. */
struct peek_ring {
	uint64_t number; /* the sub-buffer's number + 1; 0 = the ring was not looked at yet */
	uint64_t ticks;	 /* of the last record that was seen in it */
	uint32_t words;	 /* that were seen in it */
	uint32_t owner;	 /* struct calltap_subbuf.owner */
};

/* Look at the instance's rings, if it is time to. */
void peek_round(struct instance *instance, uint64_t now_ns);
void peek_destroy(struct peek *peek);

#endif
