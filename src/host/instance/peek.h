/*
 * A look at the records in rings with `--time adaptive`: somebody has to see how long calls take.
 *
 * The drainer shows their durations to the choice of brief functions (brief/brief.h), which needs no more than a part
 * of the calls.  A sub-buffer that is drained is looked at where it is, one in some while nothing changes.  Of a flight
 * recorder, whose rings nobody drains, the drainer copies what threads have written since it last looked; nothing in a
 * ring is changed, no thread waits or knows of it, and what was overwritten before it was looked at stays unseen.
 * doc/design/clock.md.  Callers: the drainer.  Context: host.
 */
#ifndef HOST_INSTANCE_PEEK_H
#define HOST_INSTANCE_PEEK_H

#include <stdint.h>

struct brief;
struct instance;
struct ring_reader;

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

/* How often the sub-buffers of a ring are looked at that are drained. */
struct peek_pace {
	uint64_t next_ns; /* from then on the next one is */
	uint64_t changes; /* brief_changes() at the last look */
	uint32_t passed;  /* sub-buffers since the last look */
	uint32_t eighths; /* so many eighths of a sub-buffer lie between two looks */
};

/*
 * A whole sub-buffer of a ring is drained at now_ns: look at its words if it is the ring's turn.  ticks: its head's
 * time. Without the session's lock.
 */
void peek_drained(struct brief *brief, struct ring_reader *reader, const uint64_t *words, uint32_t count,
		  uint64_t ticks, uint64_t now_ns);
/* Look at the rings of a flight recorder, if it is time to.  Under the session's lock. */
void peek_round(struct instance *instance, uint64_t now_ns);
void peek_destroy(struct peek *peek);

#endif
