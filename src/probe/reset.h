/*
 * The end of all probes: frames that are open return by themselves, threads
 * and stacks are as if nothing had been recorded.
 *
 * Called by the agent room when a tool lets go of a process.  Every thread of
 * the program is stopped, and none is in a stub or a recorder.  Context:
 * control.
 */
#ifndef PROBE_RESET_H
#define PROBE_RESET_H

#include <stdbool.h>
#include <stdint.h>

#include <probe/thread.h>

/*
 * Give every open frame of every stack its return address back; *frames counts them.  memory: a descriptor of the
 * process' mem file, by which stacks are reached that are closed to the process itself; -1 = none. -EBUSY: there is a
 * frame that cannot have it (can false: none can).  Some frames may then have theirs back, which is as good, and all
 * others need their stubs.
 */
int probe_frames_release(uint32_t *frames, bool can, int memory) __attribute__((warn_unused_result));
/* Forget all stacks, and give the planes' memory back.  Call it after probe_frames_release(). */
void probe_stacks_release(void);
/* True if at address lies the block of a thread, as far as can be told. */
bool probe_thread_is_one(const struct probe_thread *thread) __attribute__((warn_unused_result));
/* Make the block what a new thread's is. */
void probe_thread_renew(struct probe_thread *thread);

#endif
