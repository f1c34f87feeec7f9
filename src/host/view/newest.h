/* The trace file that a reading command opens when none is named.  Context: host. */
#ifndef HOST_VIEW_NEWEST_H
#define HOST_VIEW_NEWEST_H

#include <stddef.h>

#include <calltap/diag.h>

/* Find the newest regular file "calltap.data*" in directory, by time of modification; -ENOENT. */
int newest_trace(char *path, size_t size, const char *directory, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
