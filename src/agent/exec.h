/*
 * Programs that are executed with an environment that lacks the agent's variables (exec.c).
 *
 * Context: control, on the program's thread.
 */
#ifndef AGENT_EXEC_H
#define AGENT_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* The file is a 32-bit program, no script. */
bool exec_file_is_narrow(const char *path);
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

/* Where an environment asks for the agent, though the program cannot have it. */
struct exec_preload {
	uint32_t why;  /* CALLTAP_NOTE_* */
	size_t count;  /* variables */
	size_t at;     /* the one that asks */
	size_t length; /* its bytes */
};

/*
 * exec_hidden.c: the environment asks for the agent, by the path `own`, though that cannot be seen from here, or the
 * program is a 32-bit one.  program: its path, or NULL where that is not known.
 */
bool exec_hidden_find(char *const *environment, const char *own, const char *program, struct exec_preload *found);
/*
 * The environment without the agent, for a program that is executed now: in `list`, with room for as many variables and
 * a NULL, and `text`, with room for the one that asks and its NUL.  Returns the list.
 */
char *const *exec_hidden_without(char *const *environment, const char *own, const struct exec_preload *found,
				 char **list, char *text);

/* exec.c: note the agent's variables, whose values the environment has. */
void exec_variables_note(const char *session, const char *filters);
/*
 * Take variables that an agent has put back out of a new program's environment, and wipe them.  calls: the agent may
 * make system calls.
 */
void exec_environment_clean(char **environment, bool calls);

#endif
