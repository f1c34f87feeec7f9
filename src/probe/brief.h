/*
 * Calls without times (`--time adaptive`): what entry and exit do when the fast recorders (brief.S) cannot.
 *
 * A function whose site has CALLTAP_SITE_BRIEF leaves records without a time while the tool says so (abi/times.h).
 * Here a record always gets its time.  doc/design/clock.md has the argument.  Context: probe.
 */
#ifndef PROBE_BRIEF_H
#define PROBE_BRIEF_H

#include <stdint.h>

#include <probe/thread.h>

/*
 * The present tick, before a record that gets its time.  The tick counts as seen when the record is in the ring, not
 * before: a signal handler that came in between would take brief records that lie in front of it for ones behind it.
 *
 * The time of the record, and of all records behind it, is not from before the tick was there.
 */
static inline uint64_t probe_brief_tick(const struct calltap_times *times)
{
	uint64_t tick = __atomic_load_n(&times->tick, __ATOMIC_ACQUIRE);

	arch_clock_behind(tick);
	return tick;
}

/*
 * A record behind probe_brief_tick() has its place: the tick counts as seen there.  Not while the ticker sleeps, which
 * is woken: until the tick has changed once more, all records here get their times.
 */
void probe_brief_see(uint64_t *seen, uint64_t tick);

/* As probe_graph_entry() and probe_graph_exit(). */
int probe_brief_entry(uint64_t slot, uint32_t word, const uint64_t *ret);
void probe_brief_exit(uint64_t slot, uint32_t word, uint64_t *ret);
/* The exit of a leaf, whose return address is at slot; word: as its stub pushed it at the entry. */
void probe_leaf_exit(uint64_t slot, uint32_t word);

#endif
