/*
 * The address space's index (space.h).  Called by mirror.c and stacks.c.
 * Context: probe, slow path (mmap).
 */
#include <linux/mman.h>
#include <stdbool.h>

#include <base/sys.h>
#include <probe/space.h>

static struct space_leaf *root[SPACE_ROOT_SIZE];

struct space_leaf *space_leaf(uint64_t granule)
{
	uint64_t index = granule >> SPACE_LEAF_BITS;

	/* Acquire: pairs with the swap in space_leaf_make(). */
	return index < SPACE_ROOT_SIZE ? __atomic_load_n(&root[index], __ATOMIC_ACQUIRE) : NULL;
}

struct space_leaf *space_leaf_make(uint64_t granule)
{
	struct space_leaf *leaf = space_leaf(granule), *none = NULL;

	if (leaf || granule >> SPACE_LEAF_BITS >= SPACE_ROOT_SIZE)
		return leaf;
	leaf = sys_mmap(NULL, sizeof(*leaf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			0);
	if (sys_failed((long)leaf))
		return NULL;
	/* A thread that comes second uses the first one's leaf. */
	if (__atomic_compare_exchange_n(&root[granule >> SPACE_LEAF_BITS], &none, leaf, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return leaf;
	sys_munmap(leaf, sizeof(*leaf));
	return none;
}
