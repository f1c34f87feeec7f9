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
#include <stdint.h>

#include <calltap/diag.h>

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

/*
 * Add a condition, "FUNCTION: EXPR" (condition.h): calls of which it is false are not recorded; hides: nor what they
 * call.  values_begin() reads it, for entries may come later.  A function takes the first condition that names it.
 */
int values_choose_by(struct values *values, const char *text, bool hides, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Is there a condition that hides what calls call?  Are there entries?  values may be NULL. */
bool values_hide(const struct values *values);
bool values_tell(const struct values *values);

/*
 * Read the conditions; verify and compile all; before any function is looked at. agent_path: of the agent, beside which
 * the C library's prototypes lie.
 */
int values_begin(struct values *values, const char *agent_path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
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

/* Send the programs to a process that comes in, behind SETUP; forked children have their parent's.  values may be NULL.
 */
int values_welcome(const struct values *values, struct target *target) __attribute__((warn_unused_result));
/* The agent's answer: a process without programs is traced without values, which the user is told. */
int values_answer(struct session *session, struct target *target, const struct calltap_msg_programs_done *done)
	__attribute__((warn_unused_result));

#endif
