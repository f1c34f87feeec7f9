/*
 * Programs that are executed with an environment that lacks the agent's variables (exec.c).
 *
 * Context: control, on the program's thread.
 */
#ifndef AGENT_EXEC_H
#define AGENT_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#define EXEC_OWN      4u   /* variables that the agent puts back */
#define EXEC_TEXT_MAX 640u /* bytes of one: its own path is the longest */

/* What the agent puts back, as it came: written at the start. */
struct exec_variables {
	bool known; /* 0: nothing is put back */
	char texts[EXEC_OWN][EXEC_TEXT_MAX];
};

/* exec_file.c: the file is, or is a script for, a program whose loader takes the agent.  Opens the file for a moment.
 */
bool exec_file_takes(const char *path);
/* The file can be opened for reading. */
bool exec_file_opens(const char *path);

/* exec.c: note the agent's variables, whose values the environment has. */
void exec_variables_note(const char *session, const char *filters);
/*
 * Take variables that an agent has put back out of a new program's environment, and wipe them.  calls: the agent may
 * make system calls.
 */
void exec_environment_clean(char **environment, bool calls);

#endif
