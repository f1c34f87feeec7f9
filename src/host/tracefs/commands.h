/*
 * Commands of set_ftrace_filter: `FUNCTION:COMMAND[:COUNT]`, which does something when the function is called.
 *
 * The calls of such functions are recorded by an instance of the session that no directory shows, the *gate*.  Its
 * records are taken in together with those of the tree's instance, in the order of time: so a command is carried out
 * between the events that the call lies between.  Caller: filter_files.c.  Context: host.
 */
#ifndef HOST_TRACEFS_COMMANDS_H
#define HOST_TRACEFS_COMMANDS_H

#include <stdbool.h>

struct tree_instance;
struct tree_open;
struct tree_text;

/* Is the token a command, or would it be one if there were one of that name? */
bool commands_is(const char *token);
/* Take the command of a token, or take it away. */
int commands_take(struct tree_open *open, const char *token) __attribute__((warn_unused_result));
/* A line for each function and command. */
void commands_print(const struct tree_instance *instance, struct tree_text *out);

#endif
