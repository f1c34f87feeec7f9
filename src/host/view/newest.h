/*
 * Which trace file a reading verb opens when none is named.  Context: host.
 */
#ifndef HOST_VIEW_NEWEST_H
#define HOST_VIEW_NEWEST_H

#include <stddef.h>

#include <calltap/diag.h>

/* The newest regular file "calltap.data*" of directory to path; -ENOENT. */
int newest_trace(char *path, size_t size, const char *directory, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
