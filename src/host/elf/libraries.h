/*
 * The libraries that a program's loader would load.
 *
 * Callers: precheck.c for a command, `calltap functions`.  Context: host.
 */
#ifndef HOST_ELF_LIBRARIES_H
#define HOST_ELF_LIBRARIES_H

#include <stdbool.h>

/* Called for each library; an error ends the listing. */
typedef int libraries_visitor(void *ctx, const char *path);

/*
 * How a program is named to its loader, for free(): where its file lies, for its $ORIGIN is there, and not where a link
 * to it is.  NULL: no memory.
 */
char *libraries_program(const char *path) __attribute__((warn_unused_result));
/* Run `file` with this command line, a loader's with --list, and show its libraries.  0, or the first error. */
int libraries_list(const char *file, char **argv, libraries_visitor *visit, void *ctx)
	__attribute__((warn_unused_result));
/*
 * The libraries of a program that is not to be run, and may be anybody's: only a loader of the system's is asked, which
 * runs none of the program's code.  -ENOENT: the program's loader is another one.
 */
int libraries_list_safely(const char *loader, const char *program, libraries_visitor *visit, void *ctx)
	__attribute__((warn_unused_result));

#endif
