/*
 * The messages for an option that a verb does not have, and for an option without its value.
 *
 * Callers: reading.c, recording.c, steering.c, functions.c.  Context: host.
 */
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include <calltap/diag.h>

/* option: '?' or ':', as getopt_long() returned it; argv[0] is the verb.  Returns -EINVAL, with diag. */
int options_refuse(struct calltap_diag *diag, int option, char **argv) __attribute__((warn_unused_result));

#endif
