/*
 * Records of a session's further instances, in rings of their own beside the session's (thread.h, struct probe_set).
 *
 * A frame is pushed once for all instances; its link says which have an ENTRY of it (frames.h, FRAME_OF).  Called by
 * the dispatcher of handled functions, and where frames end.  Context: probe. doc/design/instances.md.
 */
#ifndef PROBE_INSTANCES_H
#define PROBE_INSTANCES_H

#include <calltap/abi/handlers.h>
#include <probe/frames.h>

/* The word that the dispatcher hands on: the stub's, and whether further instances want the call. */
static inline uint32_t probe_instances_word(uint32_t word, uint32_t who)
{
	return frames_id(word) | WORD_DISPATCHED | (who & CALLTAP_HANDLED_INSTANCES ? WORD_INSTANCES : 0);
}

/* Has, or had, a further instance an ENTRY of a frame with that link?  As in struct calltap_handled.who. */
static inline uint32_t probe_instances_who(uint64_t link)
{
	return link & FRAME_INSTANCES ? CALLTAP_HANDLED_INSTANCES : 0;
}

/* Bit N - 1: set N has an ENTRY of a frame with that link, or had it for an instance that has ended. */
static inline uint32_t probe_instances_sets(uint64_t link)
{
	return (uint32_t)((link & FRAME_INSTANCES) >> FRAME_INSTANCES_AT);
}

/*
 * usual.c: by the dispatcher, for calls that no handler waits for, of functions that are recorded without filters or
 * limits of the session's, if at all: frames that are entered and left whole.  row: struct calltap_handled as one word.
 * _both: the session records the call, too.  The entry's slot has its planes, and no mirror word; the exit's frame is
 * its stack's innermost.  ret: as recorders have it (graph.h).  0: the return comes by the dispatcher; 1: it does not.
 */
int probe_instances_entered(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret);
int probe_instances_entered_both(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret);
void probe_instances_left(uint64_t slot, uint32_t id, uint64_t *ret);
void probe_instances_left_both(uint64_t slot, uint32_t id, uint64_t *ret);

/*
 * The function of `word` was entered, and was called from `caller`; its frame at slot is not linked yet.  Returns flags
 * for the frame's link.
 */
uint64_t probe_instances_enter(struct probe_thread *thread, uint64_t slot, uint32_t word, uint64_t caller);
/* As probe_instances_enter() of function id, for the instances with these sets (probe_instances_sets()). */
uint64_t probe_instances_enter_sets(struct probe_thread *thread, uint64_t slot, uint32_t sets, uint32_t id,
				    uint64_t caller);
/*
 * The frame at slot, with that link, of the function whose stub `back` is in, goes on as a frame of the function of
 * `word`.  Returns the frame's new link.
 */
uint64_t probe_instances_tail(struct probe_thread *thread, uint64_t slot, uint64_t link, uint32_t word, uint64_t back,
			      uint64_t caller);
/* No frame is pushed: record the call for instances of tracer `function`, which need none. */
void probe_instances_call(struct probe_thread *thread, uint32_t word, uint64_t caller);
/* The call cannot be traced at all: count it for each instance that wants it. */
void probe_instances_missed(uint32_t word);
/* The frame at slot, with that link, of function id, returns. */
void probe_instances_exit(struct probe_thread *thread, uint64_t slot, uint64_t link, uint32_t id);
/* An event for all of them that record. */
void probe_instances_event(struct probe_thread *thread, uint32_t type, const uint64_t *words, uint32_t count);
/*
 * Frames that ended without returning: count each one's by set, then tell.  counts[set] is set where `sets` has bit
 * set - 1; the rest is not, for to clear an array takes a call on some CPUs, and most frames are of no further
 * instance.
 */
struct probe_instances_gone {
	uint32_t sets; /* 0 at first */
	uint32_t counts[PROBE_SETS];
};
void probe_instances_count(struct probe_thread *thread, uint64_t slot, uint64_t link,
			   struct probe_instances_gone *gone);
void probe_instances_unwound(struct probe_thread *thread, const struct probe_instances_gone *gone);

#endif
