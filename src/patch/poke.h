/*
 * Writing to text.  Called by the patch room and the agent room's control thread.  Context: control.
 *
 * Text is written through /proc/thread-self/mem, so that no page is ever writable and executable at once.  Where that
 * file is not to be had (no /proc, or a kernel told to refuse it), fresh text is written by mprotect, for no thread can
 * be in it; live text is left as it is.  An emulator may not notice writes through the file to code that it has
 * translated; there, live text is written in place.
 */
#ifndef PATCH_POKE_H
#define PATCH_POKE_H

#include <stddef.h>
#include <stdint.h>

struct patch_poker {
	int mem_fd;   /* of /proc/thread-self/mem, -1 = none */
	int mprotect; /* 1 = mprotect may change text, -1 = it may not, 0 = not tried yet */
	int seen;     /* 1 = code that has run changes with a write to mem_fd, -1 = it does not, 0 = not tried yet */
};

void patch_poker_open(struct patch_poker *poker);
/* Where it has no file, have it use a copy of fd, if that is of the agent's memory. */
void patch_poker_take(struct patch_poker *poker, int fd);
/* Write size bytes to text at address, which threads may be running; 0 or -errno. */
int patch_poke(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
	__attribute__((warn_unused_result));
/* Write size bytes to text at address, in which no thread can be; 0 or -errno. */
int patch_poke_fresh(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
	__attribute__((warn_unused_result));
/* Announce to the kernel that patch_sync() will be used; cheap while the process has one thread. */
void patch_sync_prepare(void);
/* Make every thread of the process refetch its instructions; 0, or -errno where the kernel cannot. */
int patch_sync(void);

#endif
