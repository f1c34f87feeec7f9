/*
 * The chain of traced frames on each stack, from the stack's top outwards by link(slot).
 *
 * A link is the slot of the next outer traced frame of the same stack.  Memory that was overwritten ends the chain and
 * never leads astray, for only the link plane is read.  Called by the files of the probe room on the program's thread.
 * Context: probe.
 */
#ifndef PROBE_FRAMES_H
#define PROBE_FRAMES_H

#include <probe/thread.h>

/* Flags in a link, about the frame at whose slot the link lies: */
#define FRAME_UNRECORDED ((uint64_t)1) /* the frame has no ENTRY record */
#define FRAME_CAME	 ((uint64_t)2) /* the first frame on a signal stack: the thread leaves the stack when it ends */
#define FRAME_COUNTED	 ((uint64_t)4) /* the frame counts in the thread's depth; it leaves through C */
/* The frame has an ENTRY in the rings of this set (1 and up: a further instance).  The bits lie above all addresses,
 * from FRAME_INSTANCES_AT (offsets.h) on. */
#define FRAME_OF(set)	((uint64_t)1 << (FRAME_INSTANCES_AT + (set)-1))
#define FRAME_INSTANCES ((((uint64_t)1 << (PROBE_SETS - 1)) - 1) << FRAME_INSTANCES_AT)
/* The frame's call has its times, though its function's stub leads to the recorders of brief calls (brief.h). */
#define FRAME_EXACT ((uint64_t)1 << 63)
#define FRAME_FLAGS (FRAME_UNRECORDED | FRAME_CAME | FRAME_COUNTED | FRAME_INSTANCES | FRAME_EXACT)

/*
 * Bits in place of the kind of record, in the word that the dispatcher of handled functions hands on (instances.h).
 * WORD_DISPATCHED: the word is the dispatcher's.  WORD_INSTANCES: the function's row names further instances that want
 * the call.
 */
#define WORD_DISPATCHED 0x80000000u
#define WORD_INSTANCES	(1u << CALLTAP_RECORD_ID_BITS)

/* The function id in a word that a stub pushed. */
static inline uint32_t frames_id(uint32_t word)
{
	return word & CALLTAP_RECORD_ID_MAX;
}

/*
 * The word of the function that the frame at slot belongs to, where the frame returns to a stub with the word `word`.
 * That stub is another function's where a root of -g has jumped to this one (graph.c).
 */
static inline uint32_t frames_word(const struct probe_thread *thread, uint64_t slot, uint32_t word)
{
	return thread->tree == slot && thread->tree_word ? thread->tree_word : word;
}

/* True if a call at slot, which has its planes, is a tail call. back: where the called function will return to. */
static inline bool frames_is_tail(uint64_t slot, uint64_t back)
{
	return *arch_mirror(slot) && probe_region_of(back);
}

/* May the thread record now?  A thread without a ring gets one here. */
static inline bool probe_can_record(struct probe_thread *thread)
{
	/* The first test of probe_thread_attach(), without the call. */
	return probe_context.enabled &&
	       ((thread->writer->ring && probe_context.wiped->alive) || probe_thread_attach(thread));
}

/*
 * Record the beginning of a call, ENTRY or TAIL.  False: the record is lost, so readers do not know of the frame, and
 * its link is to have FRAME_UNRECORDED (open.h).  Tracer profile, which has no records, counts every call.
 */
static inline bool frames_record(struct probe_thread *thread, enum calltap_record_kind kind, uint32_t id)
{
	return probe_context.profile || probe_record(thread, kind, id, 1, 0);
}

/* The slot of the next outer frame of the stack, from what the link at slot says; the stack's end when there is none.
 */
static inline uint64_t frames_outer(const struct probe_stack *stack, uint64_t slot, uint64_t link)
{
	link &= ~FRAME_FLAGS;
	/* An overwritten link, or the outermost frame's, ends the chain. */
	return link > slot && link < stack->rest ? link : stack->end;
}

/* Take a frame with that link out of the thread's depth, if it counts there. */
static inline void frames_count_down(struct probe_thread *thread, uint64_t link)
{
	if (link & FRAME_COUNTED && thread->depth)
		thread->depth--;
}

/* Open the gates that the frame at slot keeps closed. */
void frames_gates_open(struct probe_thread *thread, uint64_t slot);
/* Open the gates that the frame at slot keeps closed, and end the tree of -g that began with it. */
void frames_filters_end(struct probe_thread *thread, uint64_t slot);

/*
 * Make the first frame whose slot is at or above `end` the stack's top.  Returns how many of the frames inside it had
 * written an ENTRY; the caller records their UNWIND.  The UNWIND
 * records of further instances are written here.
 */
uint32_t frames_take_off(struct probe_thread *thread, struct probe_stack *stack, uint64_t end);
/*
 * Make the first frame whose slot is at or above `end` the stack's top, and record the UNWIND of the frames inside it.
 */
void frames_drop(struct probe_thread *thread, struct probe_stack *stack, uint64_t end);
/*
 * The address in a stub that the body of the frame at slot returns to.  False: it cannot be read.  On some CPUs the
 * address is in the slot itself, and a chain may lead to a stack that is gone, where one stack was taken for another.
 */
bool frames_back(uint64_t slot, uint64_t *back) __attribute__((warn_unused_result));
/* As frames_back(), for callers between probe_calls_begin() and _end(). */
bool frames_back_in_calls(uint64_t slot, uint64_t *back) __attribute__((warn_unused_result));
/*
 * The address that the frame whose slot this is goes back to, where the slot leads to a stub; else 0.  For code of the
 * program's that reads its caller's address from the stack (agent/x86_64/mcount.S): right at any time while the frame
 * is open, in signal handlers, too.
 */
uint64_t frames_caller(uint64_t slot);
/* True if link(slot) can be read: the slot's granule has its planes. */
bool frames_can_read(struct probe_thread *thread, uint64_t slot);
/*
 * Bring the stack's top in line with a frame at slot that is being entered (the top lies farther out) or left (the top
 * is slot).
 */
void frames_settle(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot, bool leaving);

#endif
