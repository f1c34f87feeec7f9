/*
 * An index of the address space: what the probes know of each granule (1 MiB) that has held stack slots.
 *
 * Used by mirror.c and stacks.c (context: probe, slow path) and by reset.c (control).  A thread that needs a leaf makes
 * it; leaves are never freed.
 */
#ifndef PROBE_SPACE_H
#define PROBE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <arch.h>

#define SPACE_LEAF_BITS 15 /* granules in a leaf: 32 GiB of addresses */
#define SPACE_LEAF_SIZE (1u << SPACE_LEAF_BITS)
#define SPACE_ROOT_SIZE (1u << (ARCH_ADDRESS_BITS - GRANULE_BITS - SPACE_LEAF_BITS))

struct stack_ends;

/* Planes that are mapped together, two at a time. */
enum space_pair {
	SPACE_MIRRORED, /* mirror and link, of every traced frame */
	SPACE_TIMED,	/* entered and within, of timed frames */
	SPACE_HANDLED,	/* who and data, of frames that the dispatcher has entered */
	SPACE_PAIRS
};

struct space_leaf {
	uint64_t mapped[SPACE_PAIRS][SPACE_LEAF_SIZE / 64];  /* bit: the granule has those planes (mirror.c) */
	uint64_t refused[SPACE_PAIRS][SPACE_LEAF_SIZE / 64]; /* bit: mapping them has failed */
	struct stack_ends *ends[SPACE_LEAF_SIZE]; /* the stacks that end in the granule, or NULL (stacks.c) */
};

static inline uint64_t space_index(uint64_t granule)
{
	return granule & (SPACE_LEAF_SIZE - 1);
}

/* True if the granule, which the leaf is of, has the pair's planes. */
static inline bool space_has(const struct space_leaf *leaf, uint64_t granule, enum space_pair pair)
{
	uint64_t bit = space_index(granule);

	return __atomic_load_n(&leaf->mapped[pair][bit / 64], __ATOMIC_ACQUIRE) >> bit % 64 & 1; /* with set_bit() */
}

/* Map memory of the agent's, as mmap() does; where the program locks its memory, this is not locked. */
void *probe_map(void *at, size_t size, int prot, int flags, int fd);
/* True if a plane begins at the address. */
bool probe_space_has_plane(uint64_t address);
/* The leaf of a granule; NULL when there is none, or no such granule. */
struct space_leaf *space_leaf(uint64_t granule);
/* The leaf of a granule, made if need be; NULL when there is no memory, or no such granule. */
struct space_leaf *space_leaf_make(uint64_t granule);

#endif
