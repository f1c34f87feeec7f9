/*
 * Reading the options of all verbs, and the messages for an option that a verb does not have, and for one without its
 * value.
 *
 * Callers: all verbs.  Context: host.
 */
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include <getopt.h>

#include <calltap/diag.h>

/*
 * Do getopt_long().  `VERB --list-options` writes the verb's table and ends the process, for complete.c: a line for
 * each option, "LETTER TAKES NAME", where LETTER is "-" for none and TAKES is 1 if the option has a value.
 */
int options_next(int argc, char **argv, const char *letters, const struct option *options);
#define OPTIONS_LIST "--list-options"

/* option: '?' or ':', as getopt_long() returned it; argv[0] is the verb.  Returns -EINVAL, with diag. */
int options_refuse(struct calltap_diag *diag, int option, char **argv) __attribute__((warn_unused_result));

/* The name that a mistyped word is nearest to; zeros at first. */
struct nearest {
	const char *name;
	unsigned distance, length;
};

/* Take a name into account. */
void options_near(struct nearest *nearest, const char *word, const char *name);
/* NULL: none is near enough to be what was meant. */
const char *options_nearest(const struct nearest *nearest);

#endif
