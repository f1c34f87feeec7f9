/*
 * Where a thread's block is in a program that no loader gives thread-local memory to the agent in: a static one.  Takes
 * the place of the thread_block.h beside arch.h in that agent (meson.build).
 *
 * libc notes a thread's id at a fixed distance from the thread pointer, before the thread runs.  A table leads from the
 * id to the block, and the block names the thread pointer that it is for.  Another thread that comes to the same thread
 * pointer has another id; another thread with the same id has another thread pointer, or finds the block retired.
 * doc/design/loaderless.md has the argument; probe/owned.c makes the blocks.  Contexts: probe, control.
 */
#ifndef ARCH_X86_64_RUNTIME_BY_ID_THREAD_BLOCK_H
#define ARCH_X86_64_RUNTIME_BY_ID_THREAD_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define ARCH_GATES_IN_STUBS 0
#define ARCH_GATED(name)    (uintptr_t)(name)

/* owned.c; assembly knows the first two fields (thread_offset.inc). */
struct arch_owners {
	uint64_t *table;   /* by a thread's id: bytes from arch_nobody's block to the thread's, 0 = none */
	int64_t id_offset; /* from the thread pointer to libc's note of the id */
};
extern struct arch_owners arch_owners __attribute__((visibility("hidden")));

/*
 * probe_owned(): the calling thread's block; without an id it is one that never records. probe_owned_by(): the block of
 * the thread with this thread pointer, 0 = none. probe_owned_has_id(): whether that is the id in the block.
 * probe_owned_retire(): the block's thread has ended if it had the writer, which is another one's now.
 */
void *probe_owned(void) __attribute__((visibility("hidden")));
bool probe_owned_init(void) __attribute__((visibility("hidden")));
uint64_t probe_owned_by(uint64_t pointer) __attribute__((visibility("hidden")));
bool probe_owned_has_id(const void *block, int id) __attribute__((visibility("hidden")));
void probe_owned_retire(void *block, const void *writer) __attribute__((visibility("hidden")));
/* Forget the blocks of all threads, none of which is in a recorder. */
void probe_owned_forget(void) __attribute__((visibility("hidden")));

#define arch_thread_block(variable) ((__typeof__(&(variable)))probe_owned())

/* False: libc's note of a thread's id is not known, or there is no memory. */
static inline bool arch_block_init(bool musl)
{
	(void)musl;
	return arch_owners.id_offset && probe_owned_init();
}

static inline uint64_t arch_block_of(uint64_t pointer, const void *own)
{
	(void)own;
	return probe_owned_by(pointer);
}

/* True: each thread gets a new block.  Those of ended threads have what is about to go, too. */
static inline bool arch_blocks_forget(void)
{
	probe_owned_forget();
	return true;
}

static inline bool arch_block_has_id(const void *block, int id)
{
	return probe_owned_has_id(block, id);
}

static inline void arch_block_retire(void *block, const void *writer)
{
	probe_owned_retire(block, writer);
}

#endif
