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

enum exec_kind {
	EXEC_OTHER,  /* is left alone */
	EXEC_LOADER, /* its loader takes the agent */
	EXEC_STATIC, /* has no loader */
};

/* exec_file.c: what program the file is, or is a script for.  Opens the file for a moment. */
enum exec_kind exec_file_kind(const char *path);
/* The file can be opened for reading. */
bool exec_file_opens(const char *path);

/* The tool's answer to a thread that is about to execute a static program. */
enum exec_hold {
	EXEC_LEFT,    /* nobody is to hold it, or the tool does not */
	EXEC_HELD,    /* the tool holds the thread that executes it */
	EXEC_UNHEARD, /* the tool has not answered: it runs untraced, and is counted */
};

/*
 * exec_static.c: the file is about to be executed, by this process or, spawns, by a child that libc makes: if it is a
 * static program the tool is asked to take hold of this thread.  When libc's function has come back, what was returned
 * is handed to exec_static_over().  runs: a child executes the program.
 */
enum exec_hold exec_static_ask(const char *path, bool spawns);
void exec_static_over(enum exec_hold hold, bool runs);

/* exec.c: note the agent's variables, whose values the environment has. */
void exec_variables_note(const char *session, const char *filters);
/*
 * Take variables that an agent has put back out of a new program's environment, and wipe them.  calls: the agent may
 * make system calls.
 */
void exec_environment_clean(char **environment, bool calls);

#endif
