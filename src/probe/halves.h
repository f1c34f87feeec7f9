/*
 * Brief records of further instances: four bytes and no time (`--time adaptive`; doc/design/clock.md).
 *
 * Which functions are brief for which instance the tool says (abi/times.h).  Called by usual.c on the program's thread,
 * for calls that are usual.  Context: probe.  All other records of such an instance are made by instances.c, with their
 * times.
 */
#ifndef PROBE_HALVES_H
#define PROBE_HALVES_H

#include <stdbool.h>
#include <stdint.h>

#include <probe/thread.h>

#define HALVES_RANDOM_BY   1664525u
#define HALVES_RANDOM_MORE 1013904223u

/* The file, or NULL; each call loads the pointer once (agent/times.c). */
static inline const struct calltap_times *halves_times(void)
{
	return __atomic_load_n(&probe_times, __ATOMIC_ACQUIRE); /* pairs with agent_times_take() */
}

/* Bit N - 1: the function is brief for set N. */
static inline uint32_t halves_sets(const struct calltap_times *times, uint32_t id)
{
	return times && id < CALLTAP_TIMES_FUNCTIONS ? __atomic_load_n(&times->further[id], __ATOMIC_RELAXED) : 0;
}

/*
 * Draw how many brief calls come before the next one that has its times: none after one in four, so that readers know
 * how long callers take between two calls; else up to 8/3 of `every`, so that it is `every` on average.
 */
static inline void halves_draw(struct probe_thread *thread, const struct calltap_times *times)
{
	uint32_t every = __atomic_load_n(&times->every, __ATOMIC_RELAXED) & 0xffff, seed = thread->sample_seed;

	if (!seed)
		seed = (uint32_t)(arch_clock() ^ (uint64_t)thread >> 6) | 1;
	seed = seed * HALVES_RANDOM_BY + HALVES_RANDOM_MORE;
	thread->sample_seed = seed;
	thread->until_sample = seed >> 30 ? (uint32_t)((uint64_t)(seed >> 14 & 0xffff) * (8 * every / 3) >> 16) : 0;
}

/* Is the call, which is brief for some instance, to have its times all the same? */
static inline bool halves_sampled(struct probe_thread *thread, const struct calltap_times *times)
{
	uint32_t left = __atomic_load_n(&thread->until_sample, __ATOMIC_RELAXED); /* once: handlers count down, too */

	if (__builtin_expect(left != 0, 1)) {
		__atomic_store_n(&thread->until_sample, left - 1, __ATOMIC_RELAXED);
		return false;
	}
	halves_draw(thread, times);
	return true;
}

/*
 * Put a brief record at half a word of the ring.  The bound on the record's time rests on the order of three steps: the
 * tick that the thread has seen is loaded, the place is taken, and then that tick must be the present one.  If it is
 * not, the place becomes a PAD.  False: the record is to get its time.
 */
static inline bool halves_put(struct ring_writer *writer, enum calltap_record_kind kind, uint32_t id,
			      const uint64_t *seen, const struct calltap_times *times)
{
	uint64_t tick = __atomic_load_n(seen, __ATOMIC_RELAXED), place = arch_local_add(&writer->cursor, 4);
	bool bounded;

	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the present tick is not loaded before the place was */
	bounded = __atomic_load_n(&times->tick, __ATOMIC_RELAXED) == tick;
	if (place - __atomic_load_n(&writer->base, __ATOMIC_RELAXED) >=
	    __atomic_load_n(&writer->span, __ATOMIC_RELAXED))
		return false; /* it is in no sub-buffer */
	/* Release: pairs with the tool's read in record_encode(). */
	__atomic_store_n((uint32_t *)place,
			 bounded ? (uint32_t)kind << CALLTAP_RECORD_ID_BITS | id : CALLTAP_RECORD_PAD,
			 __ATOMIC_RELEASE);
	return bounded;
}

#endif
