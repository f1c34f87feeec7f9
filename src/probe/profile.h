/*
 * Tracer profile: a thread sums calls up in a table of its own, in place of records. profile.S does the common case;
 * this is the rest, and all of it on CPUs that have no fast recorder for it.
 *
 * Called by claim.c, graph.c and settle.c on the program's thread.  Context: probe. doc/design/profile.md.
 */
#ifndef PROBE_PROFILE_H
#define PROBE_PROFILE_H

#include <probe/thread.h>

/*
 * The time of the thread's next event, by the clock that its frames have: the CPU's counter, or with `--time adaptive`
 * the tick (abi/times.h).
 */
uint64_t probe_profile_clock(struct probe_thread *thread);
/* The thread has claimed its ring: use the table in it.  Signals are blocked. */
void probe_table_attach(struct probe_thread *thread, const struct calltap_arena *arena);

/* True if the thread has a table, and the function an entry in it; calls without one are counted. */
bool probe_profile_has(struct probe_thread *thread, uint32_t id);
/* The frame at slot, which is in its chain and has its time, is a frame of function id from now on. */
void probe_profile_open(struct probe_thread *thread, uint64_t slot, uint32_t id);
/* The call at slot returns to `caller`, or its frame goes on as another function's: count it. */
void probe_profile_close(struct probe_thread *thread, uint64_t slot, uint32_t id, uint64_t caller);
/* The call at slot ended without returning before `now`: count it. */
void probe_profile_gone(struct probe_thread *thread, const struct probe_stack *stack, uint64_t slot, uint64_t now);
/* The call at slot ends and is not counted: add what its callees took to its caller's callees. */
void probe_profile_skip(const struct probe_stack *stack, uint64_t slot);

#endif
