/*
 * Triggers: calls that the tool is told of at once, by events in shared memory
 * (struct calltap_triggers), beside tracer function_graph's records.
 *
 * Called by graph.c on the program's thread (context: probe), and by the
 * control side where said.  doc/design/profile.md.
 */
#ifndef PROBE_TRIGGER_H
#define PROBE_TRIGGER_H

#include <calltap/abi/handlers.h>
#include <probe/thread.h>

/* Never NULL: without triggers, a struct with no functions. profile.S loads it once. */
extern struct calltap_triggers *probe_triggers __attribute__((visibility("hidden")));

/*
 * Control side: use this file of `size` bytes, which stays mapped; NULL = no triggers any more. 0, or -EINVAL when it
 * is no file of triggers.
 */
int probe_triggers_set(struct calltap_triggers *triggers, uint64_t size) __attribute__((warn_unused_result));

/* The function's place in the file, NULL = it has none. */
static inline struct calltap_limit *probe_trigger_limit(struct calltap_triggers *triggers, uint32_t id)
{
	char *at = (char *)triggers + calltap_triggers_at_limit(id);

	return id < triggers->functions ? (struct calltap_limit *)at : NULL;
}

/* Does a trigger wait for calls of the function? */
static inline __attribute__((always_inline)) bool probe_trigger_waits(uint32_t id)
{
	/* Acquire: pairs with probe_triggers_set(). */
	const struct calltap_limit *limit = probe_trigger_limit(__atomic_load_n(&probe_triggers, __ATOMIC_ACQUIRE), id);

	return limit &&
	       (__atomic_load_n(&limit->kinds, __ATOMIC_RELAXED) || __atomic_load_n(&limit->ticks, __ATOMIC_RELAXED));
}

/*
 * The bit that has a dispatched frame's end come by C, if a trigger waits for calls of the function; else 0.  Instances
 * whose filters refuse the call do not wait for it themselves.
 */
static inline uint32_t probe_trigger_who(uint32_t id)
{
	return probe_context.timed && probe_trigger_waits(id) ? CALLTAP_HANDLED_INSTANCES : 0;
}

/* A call of a function that may have triggers. */
struct probe_call_times {
	uint32_t id;	  /* of the function */
	bool recorded;	  /* by the session's first instance, not for further ones alone */
	uint64_t entered; /* ticks */
	uint64_t left;	  /* ticks, 0 = not yet */
};

/* The function was entered; it returned; an exception ended the call. */
void probe_trigger_entered(struct probe_thread *thread, const struct probe_call_times *call);
void probe_trigger_left(struct probe_thread *thread, const struct probe_call_times *call);
/* Its values are what triggers ask for: bits of the questions. */
void probe_trigger_chosen(struct probe_thread *thread, const struct probe_call_times *call, uint32_t told);
void probe_trigger_threw(struct probe_thread *thread, const struct probe_call_times *call);

#endif
