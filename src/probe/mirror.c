/*
 * The mirror: memory parallel to the stacks that keeps return addresses
 * (doc/design/stubs.md), and, when they are wanted, the times of entries
 * (doc/design/profile.md) and what the dispatcher keeps of its frames
 * (doc/design/handlers.md).
 *
 * The address space is cut into granules of 1 MiB.  A granule's mirror is
 * mapped without reserve the first time a slot in it is seen, by whichever
 * thread comes first, and stays: a stack's memory is likely to be a stack
 * again.  Context: probe, slow path (mmap, madvise).
 */
#include <asm/errno.h>
#include <linux/mman.h>

#include <base/sys.h>
#include <probe/space.h>
#include <probe/thread.h>

#define GRANULE	  ((uint64_t)1 << GRANULE_BITS)
#define TRIES_MAX 4	  /* attempts to map a granule where something lies in the way */
#define WAITS_MAX 5000	  /* looks, in between, for a thread that maps the same granule */
#define WAIT_NS	  1000000 /* longest wait between two looks */

static uint32_t made_count;  /* futex word: granules made so far */
static uint32_t made_wanted; /* 1: a thread waits for the next granule */

static void set_bit(uint64_t *bits, uint64_t granule)
{
	uint64_t bit = space_index(granule);

	__atomic_or_fetch(&bits[bit / 64], (uint64_t)1 << bit % 64, __ATOMIC_RELEASE); /* pairs with space_has() */
}

static bool is_mapped(uint64_t granule, enum space_pair pair)
{
	struct space_leaf *leaf = space_leaf(granule);

	return leaf && space_has(leaf, granule, pair);
}

/* 0; 1: something lies there already; -1: failed. */
static int map_plane(uint64_t *at)
{
	void *got = probe_map(at, GRANULE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1);

	if (sys_failed((long)got))
		return (long)got == -EEXIST ? 1 : -1;
	if (got != at) { /* a kernel or an emulator to which MAP_FIXED_NOREPLACE is a hint */
		sys_munmap(got, GRANULE);
		return 1;
	}
	/* Sparse by nature: a huge page would cost 2 MiB for a handful of slots. */
	SYS(madvise, at, GRANULE, MADV_NOHUGEPAGE, 0, 0, 0);
	return 0;
}

/*
 * Something lies in the way.  Most likely another thread maps this very granule right now and is about to say so.  That
 * thread has its signals blocked, so the caller has not interrupted it; but it may have lost its CPU, in a crowd for a
 * second.  While no thread maps anything, what lies there is the program's.
 */
static bool wait_for_other(uint64_t granule, enum space_pair pair)
{
	for (int i = 0; i < WAITS_MAX; i++) {
		uint32_t seen = __atomic_load_n(&made_count, __ATOMIC_ACQUIRE); /* pairs with announce() */
		/* Acquire: a thread that is not counted any more has set its bit (map_granule()). */
		uint32_t mapping = __atomic_load_n(&probe_context.wiped->mapping, __ATOMIC_ACQUIRE);

		if (is_mapped(granule, pair))
			return true;
		if (!mapping)
			return false;
		__atomic_store_n(&made_wanted, 1, __ATOMIC_SEQ_CST);
		sys_futex_wait(&made_count, seen, WAIT_NS);
	}
	return is_mapped(granule, pair);
}

static bool announce(uint64_t granule, enum space_pair pair)
{
	struct space_leaf *leaf = space_leaf_make(granule);

	if (leaf)
		set_bit(leaf->mapped[pair], granule);
	__atomic_add_fetch(&made_count, 1, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&made_wanted, 0, __ATOMIC_SEQ_CST))
		sys_futex_wake(&made_count);
	return leaf;
}

/* The first address of a plane's granule: the skews stay within a page. */
static uint64_t *plane_of(uint64_t *word)
{
	return (uint64_t *)((uint64_t)word & ~(GRANULE - 1));
}

/* The first addresses of the pair's planes for the granule at `first`. */
static void find_planes(uint64_t first, enum space_pair pair, uint64_t *planes[2])
{
	switch (pair) {
	case SPACE_TIMED:
		planes[0] = plane_of(arch_entered(first));
		planes[1] = plane_of(arch_within(first));
		break;
	case SPACE_HANDLED:
		planes[0] = plane_of(arch_who(first));
		planes[1] = plane_of(arch_data(first));
		break;
	default:
		planes[0] = plane_of(arch_mirror(first));
		planes[1] = plane_of(arch_link(first));
	}
}

/* Both as they are now: a limit that comes later may leave less than is there. */
static uint64_t planes_taken, planes_max = UINT64_MAX; /* bytes */

void probe_planes_limit(uint64_t more, uint64_t all)
{
	uint64_t taken = __atomic_load_n(&planes_taken, __ATOMIC_RELAXED);

	if (more < all - (taken < all ? taken : all))
		all = taken + more;
	__atomic_store_n(&planes_max, all, __ATOMIC_RELAXED);
}

/* Take the bytes of a granule's two planes from what there is for them; false: they are not there. */
static bool take_room(void)
{
	if (__atomic_add_fetch(&planes_taken, 2 * GRANULE, __ATOMIC_RELAXED) <=
	    __atomic_load_n(&planes_max, __ATOMIC_RELAXED))
		return true;
	__atomic_sub_fetch(&planes_taken, 2 * GRANULE, __ATOMIC_RELAXED);
	return false;
}

/* Map both planes of a granule. 0; 1: something lies there already; -1: failed. */
static int map_planes(uint64_t granule, enum space_pair pair)
{
	uint64_t *planes[2];
	int made;

	find_planes(granule << GRANULE_BITS, pair, planes);
	made = map_plane(planes[0]);
	if (made)
		return made;
	made = map_plane(planes[1]);
	if (made) {
		sys_munmap(planes[0], GRANULE);
		return made;
	}
	if (announce(granule, pair))
		return 0;
	sys_munmap(planes[0], GRANULE);
	sys_munmap(planes[1], GRANULE);
	return -1;
}

/*
 * Signals are blocked.  What lies in the way may be gone soon: where
 * MAP_FIXED_NOREPLACE is a hint, a thread that came second for the granule
 * below has this one for a moment.
 */
static bool map_granule(uint64_t granule, enum space_pair pair)
{
	uint32_t *mapping = &probe_context.wiped->mapping;

	for (int i = 0; i < TRIES_MAX; i++) {
		int made;

		if (!take_room())
			return false;
		__atomic_add_fetch(mapping, 1, __ATOMIC_SEQ_CST);
		made = map_planes(granule, pair);
		if (made)
			__atomic_sub_fetch(&planes_taken, 2 * GRANULE, __ATOMIC_RELAXED);
		__atomic_sub_fetch(mapping, 1, __ATOMIC_RELEASE); /* pairs with wait_for_other() */
		if (made <= 0)
			return !made;
		if (wait_for_other(granule, pair))
			return true;
	}
	return false;
}

static bool is_covered(uint64_t slot, enum space_pair pair)
{
	return !(slot >> ARCH_ADDRESS_BITS) && is_mapped(slot >> GRANULE_BITS, pair);
}

bool probe_mirror_is_covered(uint64_t slot)
{
	return is_covered(slot, SPACE_MIRRORED);
}

bool probe_timed_is_covered(uint64_t slot)
{
	return is_covered(slot, SPACE_TIMED);
}

/* True if mapping has failed once: it is not tried again, for each call would pay for it. */
static bool is_refused(uint64_t granule, enum space_pair pair)
{
	struct space_leaf *leaf = space_leaf(granule);

	uint64_t bit = space_index(granule);

	return leaf && __atomic_load_n(&leaf->refused[pair][bit / 64], __ATOMIC_RELAXED) >> bit % 64 & 1;
}

static void refuse(uint64_t granule, enum space_pair pair)
{
	struct space_leaf *leaf = space_leaf_make(granule);

	if (leaf)
		set_bit(leaf->refused[pair], granule);
}

static bool cover(uint64_t slot, enum space_pair pair)
{
	uint64_t granule = slot >> GRANULE_BITS, signals;
	bool mapped = is_covered(slot, pair);

	if (slot >> ARCH_ADDRESS_BITS)
		return false;
	if (!mapped) {
		if (is_refused(granule, pair) || !probe_calls_begin(&signals))
			return false;
		mapped = map_granule(granule, pair);
		if (!mapped)
			refuse(granule, pair);
		probe_calls_end(&signals);
	}
	return mapped;
}

bool probe_mirror_cover(struct probe_thread *thread, uint64_t slot)
{
	if (!cover(slot, SPACE_MIRRORED))
		return false;
	/*
	 * A single store, so that a signal handler that moves `granule` to another stack cannot leave it half changed.
	 */
	thread->granule = slot >> GRANULE_BITS;
	return true;
}

bool probe_timed_cover(struct probe_thread *thread, uint64_t slot)
{
	if (!cover(slot, SPACE_TIMED))
		return false;
	thread->timed = slot >> GRANULE_BITS;
	return true;
}

bool probe_handled_is_covered(uint64_t slot)
{
	return is_covered(slot, SPACE_HANDLED);
}

bool probe_handled_cover(struct probe_thread *thread, uint64_t slot)
{
	if (!cover(slot, SPACE_HANDLED))
		return false;
	thread->handled = slot >> GRANULE_BITS;
	return true;
}
