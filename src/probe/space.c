/*
 * The address space's index (space.h).  Called by mirror.c, stacks.c and the agent's control thread.
 * Context: probe, slow path (mmap).
 */
#include <linux/mman.h>
#include <stdbool.h>

#include <base/sys.h>
#include <probe/thread.h>
#include <probe/space.h>

static struct space_leaf *root[SPACE_ROOT_SIZE];

/* The kernel brings no memory in that nobody may access; munlock() takes it out of the locks before it gets its rights.
 */
void *probe_map(void *at, size_t size, int prot, int flags, int fd)
{
	void *got = sys_mmap(at, size, probe_context.locks ? PROT_NONE : prot, flags, fd, 0);
	long ret;

	if (!probe_context.locks || sys_failed((long)got))
		return got;
	SYS(munlock, got, size, 0, 0, 0, 0);
	ret = SYS(mprotect, got, size, prot, 0, 0, 0);
	if (!sys_failed(ret))
		return got;
	sys_munmap(got, size);
	return (void *)ret;
}

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
	leaf = probe_map(NULL, sizeof(*leaf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (sys_failed((long)leaf))
		return NULL;
	/* A thread that comes second uses the first one's leaf. */
	if (__atomic_compare_exchange_n(&root[granule >> SPACE_LEAF_BITS], &none, leaf, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return leaf;
	sys_munmap(leaf, sizeof(*leaf));
	return none;
}

/* Planes are where their slots are, but for some bits; so each leads to the other. */
bool probe_space_has_plane(uint64_t address)
{
	const uint64_t slots[] = {
		(uint64_t)arch_mirror(address), (uint64_t)arch_link(address), (uint64_t)arch_entered(address),
		(uint64_t)arch_within(address), (uint64_t)arch_who(address),  (uint64_t)arch_data(address),
	};

	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		uint64_t granule = slots[i] >> GRANULE_BITS;
		struct space_leaf *leaf = space_leaf(granule);

		if (leaf && space_has(leaf, granule, (enum space_pair)(i / 2)))
			return true;
	}
	return false;
}
