/*
 * The frames that are open where a flight recorder's sub-buffer begins
 * (CALLTAP_REC_OPEN): their entries may be overwritten when it is read.
 *
 * Called by record.c on the program's thread, which has just opened the
 * sub-buffer.  Context: probe, slow path, within probe_calls_begin() and
 * _end().  doc/design/flight-recorder.md has the argument.
 */
#ifndef PROBE_OPEN_H
#define PROBE_OPEN_H

#include <probe/thread.h>

/*
 * Write OPEN records into the session's ring of the thread, behind the head of the open sub-buffer, which has no record
 * yet.
 */
void probe_open_tell(struct probe_thread *thread);

#endif
