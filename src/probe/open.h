/*
 * The frames that are open where a sub-buffer begins, for readers who cannot know:
 *   - a flight recorder's (CALLTAP_REC_OPEN): their entries may be overwritten when it is read;
 *   - behind a loss (CALLTAP_REC_STACK with an id): exits were lost, and entries;
 *   - in a forked child's first one (the same): its thread's frames are open, whose entries are in its parent's ring.
 *
 * Called by record.c on the program's thread, which has just opened the sub-buffer.  Context: probe, slow path, within
 * probe_calls_begin() and _end().  doc/design/flight-recorder.md and ring.md have the arguments.
 */
#ifndef PROBE_OPEN_H
#define PROBE_OPEN_H

#include <probe/thread.h>

/*
 * Write OPEN records into the session's ring of the thread, behind the head of the open sub-buffer, which has no record
 * yet.
 */
void probe_open_tell(struct probe_thread *thread);
/*
 * Write a STACK record at the beginning of the open sub-buffer of the set's ring, behind its LOST record: of the
 * session's for the current stack, of a further instance's, which knows no stacks, with address 0 for all frames of the
 * thread.
 */
void probe_open_count(struct probe_thread *thread, unsigned set);
/*
 * The id of a STACK record: where records were lost since the stack's last one, or a ring was begun, the number of its
 * open frames that have an ENTRY, + 1.  0: neither was, or the number is not known.
 */
uint32_t probe_open_id(struct probe_thread *thread, struct probe_stack *stack);

#endif
