/*
 * Triggers: when a function is entered, left, throws, is called often or takes
 * long, something is done: a snapshot, tracing on or off, a stack dump, a
 * command.
 *
 *     condition = function, then what of it:
 *                 nothing or "entered", "left", "threw", "> TIME", "COUNT in TIME"
 *     condition = also FUNCTION ": " EXPR, of a call's values (host/values/condition.h)
 *
 * function is a filter as -l takes it (host/elf/filter.h).
 *
 * Each instance has triggers of its own, or none.  The target asks the question, at the function's entry or exit
 * (abi/profile.h); the session's watch (watch.h) takes the answers of its targets, and sends each instance a deed for
 * each trigger that fires; an actor (actor.h) does what is to be done, in the process of who asked for the instance.
 * This header has the list of an instance's triggers.  Callers: the commands, watch.c, actor.c, the instances.
 * Context: host.
 */
#ifndef HOST_HOOK_TRIGGERS_H
#define HOST_HOOK_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <calltap/diag.h>

struct history_call;
struct triggers;

enum trigger_action {
	TRIGGER_SNAPSHOT, /* a flight recorder's content to a file */
	TRIGGER_START,	  /* record from now on */
	TRIGGER_STOP,	  /* record no more, but what has other triggers */
	TRIGGER_STACK,	  /* print the calling thread's stack */
	TRIGGER_RUN,	  /* a command, by the shell */
	TRIGGER_ACTIONS
};

int triggers_create(struct triggers **out) __attribute__((warn_unused_result));
void triggers_destroy(struct triggers *triggers); /* NULL: nothing is done */

/*
 * Add a trigger; the text of TRIGGER_RUN has its command, too: "CONDITION => COMMAND".  -EINVAL with the condition and
 * a caret in diag.
 */
int triggers_add(struct triggers *triggers, enum trigger_action action, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * The text of the trigger that was added last, if it is about values, and its number among these, for values_ask();
 * else NULL.
 */
const char *triggers_question(const struct triggers *triggers, uint32_t *number);
/* Has any trigger that action?  NULL: no. */
bool triggers_have(const struct triggers *triggers, enum trigger_action action);
/* At most one action of each trigger in gap_ns, and `most` in all (0 = no limit). */
void triggers_set_rate(struct triggers *triggers, uint64_t gap_ns, uint32_t most);
/* A snapshot is taken after_ns after its cause, and has no records that are older than history_ns (0 = all). */
void triggers_set_window(struct triggers *triggers, uint64_t after_ns, uint64_t history_ns);
/* A function's pattern that has matched nothing so far; NULL: all have.  triggers may be NULL. */
const char *triggers_unmatched(const struct triggers *triggers);

/*
 * To another process as words, and back: a line key=value for each trigger and for the rate.  Commands stay with the
 * process that runs them.
 */
void triggers_print(const struct triggers *triggers, FILE *stream);
/* Is the key one of these words'? */
bool triggers_has_key(const char *key);
/* *triggers is made with the first word.  -EINVAL with a sentence. */
int triggers_take(struct triggers **triggers, const char *key, const char *value, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/*
 * The last calls that targets have told the begin and the end of, the earliest
 * first, and `wanted` (or NULL): a copy, the caller's.  triggers may be NULL.
 */
int triggers_calls(struct triggers *triggers, const struct history_call *wanted, struct history_call **out,
		   size_t *count) __attribute__((warn_unused_result));

#endif
