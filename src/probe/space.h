/*
 * An index of the address space: what the probes know of each granule (1 MiB) that has held stack slots.
 *
 * Used by mirror.c and stacks.c (context: probe, slow path) and by reset.c (control).  A thread that needs a leaf makes
 * it; leaves are never freed.
 */
#ifndef PROBE_SPACE_H
#define PROBE_SPACE_H

#include <stdint.h>

#include <arch.h>

#define SPACE_LEAF_BITS 15 /* granules in a leaf: 32 GiB of addresses */
#define SPACE_LEAF_SIZE (1u << SPACE_LEAF_BITS)
#define SPACE_ROOT_SIZE (1u << (ARCH_ADDRESS_BITS - GRANULE_BITS - SPACE_LEAF_BITS))

struct stack_ends;

struct space_leaf {
	uint64_t mapped[SPACE_LEAF_SIZE / 64];	  /* bit: the granule has its planes (mirror.c) */
	uint64_t timed[SPACE_LEAF_SIZE / 64];	  /* bit: the granule has the planes of timed frames */
	uint64_t refused[SPACE_LEAF_SIZE / 64];	  /* bit: mapping the granule's planes has failed */
	uint64_t untimed[SPACE_LEAF_SIZE / 64];	  /* bit: mapping the planes of timed frames has failed */
	struct stack_ends *ends[SPACE_LEAF_SIZE]; /* the stacks that end in the granule, or NULL (stacks.c) */
};

static inline uint64_t space_index(uint64_t granule)
{
	return granule & (SPACE_LEAF_SIZE - 1);
}

/* The leaf of a granule; NULL when there is none, or no such granule. */
struct space_leaf *space_leaf(uint64_t granule);
/* The leaf of a granule, made if need be; NULL when there is no memory, or no such granule. */
struct space_leaf *space_leaf_make(uint64_t granule);

#endif
