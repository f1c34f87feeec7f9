/*
 * Finding the file that would run for a PROGRAM that a person types.
 *
 * Callers: the commands that take a PROGRAM, and the session's rooms.  Context: host.
 */
#ifndef HOST_ELF_PROGRAM_H
#define HOST_ELF_PROGRAM_H

#include <stdbool.h>

#include <calltap/diag.h>

/*
 * Find name as the shell would: along PATH unless it has a slash.  libraries:
 * a file of this name in the current directory will do as well, and it need
 * not be executable.  The caller frees *path.
 * -ENOENT, -EACCES, -EISDIR, -EINVAL (a pipe or a device), -ENOMEM.
 */
int program_find(char **path, const char *name, bool libraries, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
