/*
 * Where a thread's block is in a program whose loader has no static TLS for
 * libraries that come later: musl's.  Takes the place of the thread_block.h
 * beside arch.h in that agent (meson.build).
 *
 * A thread's pointer leads to its own address and, 8 bytes behind that, to the
 * table of its modules' blocks (psABI, ELF-TLS 3.4.6); word 0 of the table is
 * how many there are.  musl makes ours for every thread before dlopen()
 * returns, and for each new one before that runs: there is nothing to be
 * made here, so these few loads may be done anywhere, in a signal's handler,
 * too.  doc/design/musl.md.  Contexts: probe, control.
 */
#ifndef ARCH_X86_64_RUNTIME_DYNAMIC_TLS_THREAD_BLOCK_H
#define ARCH_X86_64_RUNTIME_DYNAMIC_TLS_THREAD_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <base/sys.h>

#define ARCH_GATES_IN_STUBS 0
#define ARCH_GATED(name)    (uintptr_t)(name)

/* find.S: the linker's pair for the variable, its module and its place in the module's block. */
const uint64_t *arch_block_index(void) __attribute__((visibility("hidden")));
/* Bytes from a thread's table to the word that leads to the agent's block. */
extern uint64_t arch_block_slot __attribute__((visibility("hidden")));

static inline void *arch_own_block(void)
{
	uint64_t table;

	__asm__("mov %%fs:8, %0" : "=r"(table));
	return *(void *const *)(table + arch_block_slot);
}

#define arch_thread_block(variable) ((__typeof__(&(variable)))arch_own_block())

static inline bool arch_block_init(bool musl)
{
	const uint64_t *index = arch_block_index(), *table;

	__asm__("mov %%fs:8, %0" : "=r"(table));
	/* Other libcs make a block when it is asked for, by a call. */
	if (!musl || index[1] || table[0] < index[0] || !table[index[0]])
		return false;
	arch_block_slot = index[0] * sizeof(uint64_t);
	return true;
}

/* False: blocks are their threads' own memory. */
static inline bool arch_blocks_forget(void)
{
	return false;
}

static inline uint64_t arch_block_of(uint64_t pointer, const void *own)
{
	uint64_t table, count, block;

	(void)own;
	/* A thread may use the thread pointer for something else. */
	if (!sys_copy_in(&table, pointer + 8, sizeof(table)) || !sys_copy_in(&count, table, sizeof(count)) ||
	    count * sizeof(uint64_t) < arch_block_slot || !sys_copy_in(&block, table + arch_block_slot, sizeof(block)))
		return 0;
	return block;
}

/* True if the block is the thread's with this id, as far as can be told. */
static inline bool arch_block_has_id(const void *block, int id)
{
	(void)block;
	(void)id;
	return true;
}

/* The block's thread has ended, and its writer is another one's: libc makes the next thread's block anew. */
static inline void arch_block_retire(void *block, const void *writer)
{
	(void)block;
	(void)writer;
}

#endif
