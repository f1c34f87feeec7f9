/*
 * Where a thread's block is, with the agent there from a program's start, or
 * with a loader that has room in static TLS for it: at the same distance from
 * every thread's pointer (initial-exec).  Stubs may then test words of it.
 *
 * Included by each CPU's thread_block.h.  Contexts: probe, control.
 */
#ifndef ARCH_GENERIC_RUNTIME_STATIC_BLOCK_H
#define ARCH_GENERIC_RUNTIME_STATIC_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* 1: a gated stub tests the gate; 0: it calls a recorder that does, as ARCH_GATED says. */
#define ARCH_GATES_IN_STUBS 1
#define ARCH_GATED(name)    0

/* The calling thread's copy of the agent's one thread-local variable. */
#define arch_thread_block(variable) (&(variable))

/* The constructor calls this before all else; musl: libc is musl's.  False: threads have no block. */
static inline bool arch_block_init(bool musl)
{
	(void)musl;
	return true;
}

/* The block of the thread with this thread pointer, by the caller's own block; 0 = it has none. */
/* False: blocks are their threads' own memory. */
static inline bool arch_blocks_forget(void)
{
	return false;
}

static inline uint64_t arch_block_of(uint64_t pointer, const void *own)
{
	return pointer + ((uint64_t)own - (uint64_t)__builtin_thread_pointer());
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
