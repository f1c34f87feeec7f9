/*
 * Writing to text.  Context: control.
 *
 * Text is written through /proc/self/mem, so that no page is ever writable
 * and executable at once; where that file is not to be had, by mprotect, and
 * only while no other thread can be in the object.
 */
#ifndef PATCH_POKE_H
#define PATCH_POKE_H

#include <stddef.h>
#include <stdint.h>

struct patch_poker {
	int mem_fd; /* of /proc/self/mem, -1 = none */
};

void patch_poker_open(struct patch_poker *poker);
void patch_poker_close(struct patch_poker *poker);
/* Write size bytes to text at address; 0 or -errno. */
int patch_poke(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
	__attribute__((warn_unused_result));
/* Announce to the kernel that patch_sync() will be used; cheap while the process has one thread. */
void patch_sync_prepare(void);
/* Make every thread of the process refetch its instructions. */
void patch_sync(void);

#endif
