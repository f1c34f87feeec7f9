/*
 * Triggers: when a function is entered, left, throws, is called often or takes
 * long, something is done: a snapshot, tracing on or off, a stack dump, a
 * command.
 *
 * The target asks the question, at the function's entry or exit
 * (abi/profile.h); the drainer takes its answers, and a thread of its own
 * does what is to be done.  Callers: the commands, images.c, session.c,
 * drain.c.  Context: host.
 *
 *     condition = function, then what of it:
 *                 nothing or "entered", "left", "threw", "> TIME", "COUNT in TIME"
 *
 * function is a filter as -l takes it (host/elf/filter.h).
 */
#ifndef HOST_HOOK_TRIGGERS_H
#define HOST_HOOK_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>

struct history_call;
struct object;
struct object_site;
struct session;
struct triggers;

enum trigger_action {
	TRIGGER_SNAPSHOT, /* a flight recorder's content to a file */
	TRIGGER_START,	  /* record from now on */
	TRIGGER_STOP,	  /* record no more, but what has triggers */
	TRIGGER_STACK,	  /* print the calling thread's stack */
	TRIGGER_RUN,	  /* a command, by the shell */
	TRIGGER_ACTIONS
};

int triggers_create(struct triggers **out) __attribute__((warn_unused_result));
void triggers_destroy(struct triggers *triggers);

/* Add one; of TRIGGER_RUN, with its command: "CONDITION => COMMAND".  -EINVAL with the condition and a caret in diag.
 */
int triggers_add(struct triggers *triggers, enum trigger_action action, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
bool triggers_have(const struct triggers *triggers, enum trigger_action action);
/* At most one action of each trigger in so long, and so many in all (0 = no limit). */
void triggers_set_rate(struct triggers *triggers, uint64_t gap_ns, uint32_t most);
/* A snapshot is taken so long after what it is taken for, and has no records that are older by so much (0 = all). */
void triggers_set_window(struct triggers *triggers, uint64_t after_ns, uint64_t history_ns);

/* What a function's stub needs beside its tracer's (CALLTAP_SITE_*); 0: nothing waits for it. */
uint16_t triggers_flags(struct triggers *triggers, struct object *object, const struct object_site *site);
/* Write down what the target is to look for in a function that triggers_flags() is not 0 for. */
void triggers_set_limits(struct triggers *triggers, uint32_t id, struct object *object, const struct object_site *site);

/* A function's pattern that has matched nothing so far; NULL: all have. */
const char *triggers_unmatched(const struct triggers *triggers);

/*
 * Of a session.  Make the memory that is shared with the targets, once the
 * rate of the clock is known; the descriptor is for TRIGGERS.
 */
int triggers_begin(struct triggers *triggers, struct session *session, double ticks_per_ns, uint32_t functions)
	__attribute__((warn_unused_result));
/* Start the thread that does what is to be done. */
int triggers_start(struct triggers *triggers) __attribute__((warn_unused_result));
/* The memory's descriptor and size, for a target that comes in. */
int triggers_memory(const struct triggers *triggers, uint64_t *size);
/* Take what has happened; by the drainer, with the session's lock held. */
void triggers_poll(struct triggers *triggers);
/*
 * The last calls that targets have told the begin and the end of, the earliest
 * first, and `wanted` (or NULL): a copy, the caller's.  triggers may be NULL.
 */
int triggers_calls(struct triggers *triggers, const struct history_call *wanted, struct history_call **out,
		   size_t *count) __attribute__((warn_unused_result));
/* What is under way is done to its end. */
void triggers_end(struct triggers *triggers);

#endif
