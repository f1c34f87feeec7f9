/*
 * Why a file cannot be traced, and how to build it so that it can.
 *
 * Callers: object_open and the commands `record` and `functions`.  Context: host.
 */
#ifndef HOST_ELF_ADVICE_H
#define HOST_ELF_ADVICE_H

#include <calltap/diag.h>

#include "object.h"

/* fd is no ELF file: a script, say.  Returns -ENOEXEC. */
int object_not_elf_diag(int fd, const char *path, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Nothing in this object can be traced, as it has no fit site or is static: the
 * likely cause and the remedy.  diag's code is -ENODATA.
 */
void object_no_sites_diag(const struct object *object, struct calltap_diag *diag);

/*
 * How many C++ functions have no site in an object where others have one of
 * -fpatchable-function-entry: likely lost by g++ before 13.  0 = none.
 */
size_t object_lost_cxx_sites(const struct object *object);

#endif
