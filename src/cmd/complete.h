/*
 * Completion: the candidates for the word that a user types, and the scripts by which bash, zsh and fish ask for them.
 *
 * Caller: main.c, for `calltap --complete` and `calltap --completion`.  Context: host.
 */
#ifndef CMD_COMPLETE_H
#define CMD_COMPLETE_H

#include <stddef.h>

struct complete_verb {
	const char *name, *summary;
};

/*
 * Write the candidates for the last one of the words behind "calltap", one a line, each with a tab and what it is where
 * that is known.  A line of its own asks the shell for more: ":files", ":dirs" or ":commands".  Returns an exit status.
 */
int complete_words(const struct complete_verb *verbs, size_t verb_count, int count, char **words);
/* Write the script for a shell: "bash", "zsh" or "fish".  Returns an exit status. */
int complete_script(const char *shell);

#endif
