/*
 * Values: what is fetched at functions' calls and returns (spec.h), and shown in the trace with them.
 *
 * The command makes the list from its options.  The session compiles each entry once, into memory that targets map and
 * only read (abi/program.h) (one for what types tell when a function comes that tells something new), and gives
 * functions that an entry names, and that are recorded, a row there.  A function takes the first entry for its call
 * that names it, and the first for its return.
 *
 * Callers: the commands; session, images.c and conversation.c under the session's lock.  Context: host.
 */
#ifndef HOST_VALUES_VALUES_H
#define HOST_VALUES_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <calltap/diag.h>
#include <host/tallied.h>

struct calltap_msg_programs_done;
struct image;
struct object_site;
struct session;
struct target;
struct trace_writer;
struct values;

/* What a function's calls and returns are to tell; 0 = nothing. */
struct values_choice {
	uint16_t entry, exit; /* numbers of programs */
};

int values_create(struct values **out) __attribute__((warn_unused_result));
void values_destroy(struct values *values); /* NULL: nothing is done */
/*
 * Add an entry, "FUNCTION:SPEC", or "FUNCTION" for what the function's types tell; result: for returns.  -EINVAL with
 * text and caret in diag.
 */
int values_add(struct values *values, const char *text, bool result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Functions that no entry names tell what their types do. */
void values_add_all(struct values *values);

/* What else is not recorded where a condition is false. */
enum values_way {
	VALUES_IF,
	VALUES_ONLY_IF, /* what the calls call */
	/*
	 * The functions begin trees (-g).  Outside of trees nothing is recorded anyway: so what such a call calls may
	 * begin another one; but by its result, what it has called is not to be shown.
	 */
	VALUES_TREE,
};

/* How calls are counted. */
struct values_counting {
	/*
	 * "FUNCTION", by nothing else, "FUNCTION:SPEC", or "FUNCTION: NAME", by the argument that types tell under that
	 * name, or "NAME->MEMBER".
	 */
	const char *by;
	const char *sum;	/* a number that is added up, as what is behind "FUNCTION: "; NULL = none is */
	struct buckets buckets; /* of a number */
	bool newest;		/* what there is no room for takes that of values that have not come for long */
	/*
	 * NULL, or as `by`: spans are measured, the times from a call, or return, that `by` tells to the next one that
	 * this tells with the same number, in one process.  Both name one number.
	 */
	const char *until;
};
/*
 * In place of entries: count calls in the target, and record nothing.  functions: FUNCTION, and that of `until`, NULL =
 * there is none; they live as long as values.
 */
int values_count(struct values *values, const struct values_counting *how, const char *functions[2],
		 struct calltap_diag *diag) __attribute__((warn_unused_result));
/* Are calls counted, or numbers added up, when they return? */
bool values_count_returns(const struct values *values);
/* What was counted so far.  -ENOMEM; free() the list and the frames, whatever is returned. */
int values_tallies(struct tallies *out, const struct values *values) __attribute__((warn_unused_result));

/*
 * Add a condition, "FUNCTION: EXPR" (condition.h): calls of which it is false are not recorded.  values_begin() reads
 * it, for entries may come later.  A function takes the first condition that names it.
 */
int values_choose_by(struct values *values, const char *text, enum values_way way, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * Add what a trigger asks for, "FUNCTION: EXPR": calls of which it is true are told to the session's watch with the
 * number, below VALUES_ASKS.
 */
#define VALUES_ASKS 32u
int values_ask(struct values *values, const char *text, uint32_t number, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Is there a condition that hides what calls call?  Are there entries?  values may be NULL. */
bool values_hide(const struct values *values);
bool values_tell(const struct values *values);
/* Are they of calls alone, as the tracer function can have them: the setting registers without results? */
bool values_of_calls(const struct values *values);
/* Is there anything: an entry, a condition, a question of a trigger?  values may be NULL. */
bool values_any(const struct values *values);

/*
 * Read the conditions; verify and compile all; before any function is looked at. machine: the targets' e_machine;
 * agent_path: of their agent, beside which the C library's prototypes lie.
 */
int values_begin(struct values *values, uint16_t machine, const char *agent_path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * change.c: other lists while targets run.  Keys are args, result, if, only-if (a list each), auto-args (on or off)
 * and registers (a list of args, result and caller: as the kernel's tracers tell, of functions that no entry names).
 * Nothing is changed where an error is returned.  *before is for values_change_end(); back: the lists are those that
 * were there.
 */
struct setting_change;
struct values_before;

bool values_is_key(const char *key);
int values_change(struct values *values, struct values_before **before, const struct setting_change *changes,
		  size_t count, struct calltap_diag *diag) __attribute__((warn_unused_result));
void values_change_end(struct values *values, struct values_before *before, bool back);
bool values_counting(const struct values *values); /* they count calls, and nothing is recorded */
/* Processes began without values, and are to get them: all that come in are sent the programs. */
void values_come_late(struct values *values);
/* Every key, as settings_print() does.  values may be NULL. */
void values_print(const struct values *values, FILE *stream);

/* Say in the first instance's trace what events hold, of those that it was not said of before.  values may be NULL. */
int values_describe(struct values *values, struct session *session) __attribute__((warn_unused_result));
/* What the function tells.  values may be NULL. */
struct values_choice values_choose(struct values *values, const struct image *image, const struct object_site *source);
/* Write the row of a function; before its site leads to the dispatcher.  values may be NULL. */
void values_write(struct values *values, uint32_t id, struct values_choice choice);
/* A function's pattern that has matched nothing so far; NULL: all have.  values may be NULL. */
const char *values_unmatched(const struct values *values);
/* -ENODATA: an entry is for what types tell, and no function that it names has any.  values may be NULL. */
int values_check(const struct values *values, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Send the programs to a process that comes in, behind SETUP; forked children have their parent's.  values may be NULL.
 * one: children that it forks do not count.
 */
int values_welcome(const struct values *values, struct target *target, bool one) __attribute__((warn_unused_result));
/* The process has ended, or is let go of: what has begun there will not end.  values may be NULL. */
void values_end(struct values *values, const struct target *target);
/* The agent's answer: a process without programs is traced without values, which the user is told. */
int values_answer(struct session *session, struct target *target, const struct calltap_msg_programs_done *done)
	__attribute__((warn_unused_result));

#endif
