/*
 * Why a file cannot be traced, and how to build it so that it can.
 *
 * Callers: object_open and the commands `record` and `functions`.  Context: host.
 */
#ifndef HOST_ELF_ADVICE_H
#define HOST_ELF_ADVICE_H

#include <calltap/diag.h>

#include "object.h"

/* Say in diag that fd is no ELF file, but a script, say.  Returns -ENOEXEC. */
int object_not_elf_diag(int fd, const char *path, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Say in diag why nothing in this object can be traced (no fit site, or a static file), and the remedy. diag's code is
 * -ENODATA.
 */
void object_no_sites_diag(const struct object *object, struct calltap_diag *diag);

#define OBJECT_ADVICE_MAX 1024
/*
 * Functions that could be traced if the object were built otherwise: how many
 * and how, a few lines; "" = none.  Likely causes: C++ functions without a site
 * where others have one (g++ before 13 loses them), sites that are not aligned,
 * functions that a strip has made unknown.
 */
void object_advise(const struct object *object, char text[OBJECT_ADVICE_MAX]);

#endif
