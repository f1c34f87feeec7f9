/*
 * Fetching an object's debug file when the user has asked for it (--debuginfod).
 *
 * Caller: listed.c.  Context: host.
 */
#ifndef CMD_FETCH_H
#define CMD_FETCH_H

#include <stdbool.h>

#include <calltap/diag.h>

struct object;

/*
 * Fetch the debug file, unless the object has its names already, and say so on standard error.  *fetched: the object
 * has to be opened anew.  That no server has the file is no error.
 */
int fetch_debug_file(bool *fetched, const struct object *object, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
