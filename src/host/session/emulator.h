/*
 * The emulator that runs a program for another CPU: which one, and how it is
 * told where the program's libraries and the agent are.  QEMU's user mode, or
 * what takes the same options.
 *
 * Callers: precheck.c, spawn.c.  Context: host.
 */
#ifndef HOST_SESSION_EMULATOR_H
#define HOST_SESSION_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>

#include <calltap/diag.h>

#include "machine.h"

#define EMULATOR_WORDS 64 /* of a command with its options */

struct emulator {
	char *path; /* of its file; NULL = there is none */
	char *text; /* its command, cut into words */
	const char *words[EMULATOR_WORDS];
	size_t count;
	const char *sysroot; /* where it looks for the program's files first; NULL = nowhere */
	char *sysroot_text;
	bool kills_forks; /* a forked child of a program with threads that starts one itself; and we are one */
};

/*
 * Find the emulator for a machine: `given` (a command with options, or NULL),
 * else QEMU along PATH.  -ENODEV: there is none.
 */
int emulator_find(struct emulator *emulator, const struct machine *machine, const char *given,
		  struct calltap_diag *diag) __attribute__((warn_unused_result));
void emulator_destroy(struct emulator *emulator);

/* A path of the program's as the emulator opens it; the caller frees it.  NULL: no memory. */
char *emulator_host_path(const struct emulator *emulator, const char *path);
/*
 * The command line that runs path with arguments (arguments[0] is the name
 * that it is called by) and, where they are given, variables ("NAME=VALUE") in
 * its environment.  NULL: no memory.  The caller frees the array; the strings
 * are the parameters' and the emulator's.
 */
char **emulator_command(const struct emulator *emulator, const char *path, char *const *arguments,
			const char *const *variables) __attribute__((warn_unused_result));
/* For a line of text: the command as typed; the caller frees it. */
char *emulator_text(const struct emulator *emulator);

#endif
