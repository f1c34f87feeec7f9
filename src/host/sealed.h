/*
 * Memory that the tool shares with targets.
 *
 * Callers: the recorder's rooms.  Context: host.
 */
#ifndef HOST_SEALED_H
#define HOST_SEALED_H

#include <stddef.h>

/*
 * A memfd of that size that neither side can shrink or grow, so that no access ends by SIGBUS, and where the tool has
 * it mapped.  The caller closes *fd and unmaps *memory.  -errno: there is neither.
 */
int sealed_create(const char *name, size_t size, int *fd, void **memory) __attribute__((warn_unused_result));

#endif
