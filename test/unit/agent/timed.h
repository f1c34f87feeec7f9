/*
 * Compiled functions of the test's own program as sites, and a table of sums for their thread.
 *
 * Callers: the tests of timed frames and of handlers, and the benchmarks of test/stress.
 */
#ifndef TEST_UNIT_AGENT_TIMED_H
#define TEST_UNIT_AGENT_TIMED_H

#include <probe/profile.h>
#include <probe/trigger.h>
#include "support.h"

/* A function that the compiler neither inlines nor makes several of, and whose calls stay, as if it had effects. */
#if defined(__clang__)
#define TIMED_ALONE noinline, optnone
#else
#define TIMED_ALONE noinline, noclone, noipa
#endif

/* A function that is to be a site of code_length(CODE_USUAL) bytes. */
#if defined(__x86_64__)
#define TIMED_SITE __attribute__((TIMED_ALONE, patchable_function_entry(5)))
#elif defined(__aarch64__)
#define TIMED_SITE __attribute__((TIMED_ALONE, patchable_function_entry(1)))
#else
#define TIMED_SITE __attribute__((TIMED_ALONE, aligned(4), patchable_function_entry(4)))
#endif

struct timed_function {
	void *function;
	uint16_t flags; /* CALLTAP_SITE_* */
};

/* Bytes that a function begins with where the CPU checks indirect calls: endbr64, bti c. */
unsigned timed_landing_pad(const void *function);
/* Make the functions sites; their ids are their indices in the list.  To be called once in a program. */
void timed_patch(const struct timed_function *list, uint32_t count);

/* Make a profile's memory for `rings` threads and switch the probes on; and off again. */
void timed_profile_start(struct fake_arena *fake, uint32_t rings, uint32_t functions, uint32_t histograms);
void timed_profile_stop(struct fake_arena *fake);

/* The table of a ring. */
const struct calltap_profile *timed_head(const struct fake_arena *fake, uint32_t ring);
const struct calltap_profile_entry *timed_entry(const struct fake_arena *fake, uint32_t ring, uint32_t id);
const struct calltap_profile_caller *timed_caller(const struct fake_arena *fake, uint32_t ring, uint32_t i);
/* Calls in all buckets of a function's histogram. */
uint64_t timed_histogram_sum(const struct fake_arena *fake, uint32_t ring, uint32_t id);

/* Triggers for ids below `functions`, in plain memory. */
struct calltap_triggers *timed_triggers(uint32_t functions, uint32_t slots);
struct calltap_limit *timed_limit(struct calltap_triggers *triggers, uint32_t id);
const struct calltap_event *timed_event(const struct calltap_triggers *triggers, uint32_t i);

#endif
