/*
 * The end of all probes (reset.h). doc/design/control.md has the argument.
 *
 * A frame is open exactly if its mirror word is not 0 and its slot holds an address in a stub; all else in the planes
 * is stale.  So the planes say it all, also of stacks that no thread is on.  Only those of their pages are read that
 * are in memory or swapped out.  Context: control.
 */
#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#include <base/mem.h>
#include <base/sys.h>
#include <probe/reset.h>
#include <probe/space.h>

#define GRANULE	      ((uint64_t)1 << GRANULE_BITS)
#define PAGE	      4096u
#define GRANULE_PAGES (GRANULE / PAGE)
#define PAGE_WORDS    (PAGE / sizeof(uint64_t))
#define PRESENT	      ((uint64_t)3 << 62) /* in an entry of /proc/PID/pagemap: in memory, or swapped out */

struct release {
	int pagemap;	 /* -1 = not to be had: all pages are looked at */
	int memory;	 /* the process' mem file, -1 = not to be had */
	bool can;	 /* frames can be released */
	uint64_t lo, hi; /* around all stubs */
	uint32_t frames;
	int error;
};

typedef void granule_fn(struct release *release, struct space_leaf *leaf, uint64_t granule);

static void each_granule(struct release *release, granule_fn *visit)
{
	for (uint64_t at = 0; at < SPACE_ROOT_SIZE; at++) {
		struct space_leaf *leaf = space_leaf(at << SPACE_LEAF_BITS);

		for (uint64_t i = 0; leaf && i < SPACE_LEAF_SIZE; i++)
			if (space_has(leaf, i, SPACE_MIRRORED))
				visit(release, leaf, at << SPACE_LEAF_BITS | i);
	}
}

/* The first address of a plane's granule: the skews stay within a page. */
static uint64_t plane_of(const uint64_t *word)
{
	return (uint64_t)word & ~(GRANULE - 1);
}

/* Leaves have no frames: where their stubs' addresses lie no body runs any more, for the tool has waited for that. */
static bool is_stub(const struct release *release, uint64_t address)
{
	return address >= release->lo && address < release->hi && !arch_is_leaf_back(address) &&
	       probe_region_of(address);
}

/*
 * The stack may be gone, with its frames; so it is read, and tried for writing, by system calls, which fail where a
 * load would fault.  Where a stack was, the program may have mapped memory that nobody may read, or have closed the
 * stack itself for a while: the kernel reads and writes such memory by the mem file, as for a debugger.
 */
static bool read_page(const struct release *release, uint64_t slots[PAGE_WORDS], uint64_t page)
{
	return sys_copy_in(slots, page, PAGE) ||
	       (release->memory >= 0 && SYS(pread64, release->memory, slots, PAGE, page, 0, 0) == PAGE);
}

/* False: the page is gone. */
static bool is_mapped(uint64_t page)
{
	uint8_t in_memory;

	return !sys_failed(SYS(mincore, page, PAGE, &in_memory, 0, 0, 0));
}

/* *open: the slots of this page can be written by stores, which the first one is tried for. */
static bool release_frame(const struct release *release, uint64_t slot, uint64_t held, bool *open)
{
	if (!release->can)
		return false;
	*open = *open || sys_copy_out(slot, &held, sizeof(held));
	if (*open)
		return arch_frame_release(slot);
	return release->memory >= 0 &&
	       SYS(pwrite64, release->memory, arch_mirror(slot), sizeof(held), slot, 0, 0) == sizeof(held);
}

/*
 * Where a page of the mirror has no frame, its page of a stack is not asked for: right below the initial thread's stack
 * the kernel writes a warning to its log for that.
 */
static bool has_frames(const uint64_t *mirror)
{
	for (uint32_t i = 0; i < PAGE_WORDS; i++)
		if (mirror[i])
			return true;
	return false;
}

/* Release the frames of one page of the mirror, whose slots are one page of a stack. */
static void release_page(struct release *release, uint64_t *mirror)
{
	uint64_t slots[PAGE_WORDS], page = (uint64_t)arch_mirror((uint64_t)mirror) & ~(uint64_t)(PAGE - 1);
	bool there = read_page(release, slots, page);
	bool unknown = !there && is_mapped(page), open = false;

	for (uint32_t i = 0; i < PAGE_WORDS; i++) {
		uint64_t slot = (uint64_t)arch_mirror((uint64_t)&mirror[i]), held = slots[(slot - page) / sizeof(held)];

		if (!mirror[i])
			continue;
		if (there && is_stub(release, held)) {
			if (!release_frame(release, slot, held, &open))
				unknown = true;
			release->frames++;
		}
		if (unknown) {
			release->error = -EBUSY;
			return;
		}
		mirror[i] = 0;
	}
}

/*
 * For CPUs whose bodies keep the stub's address in memory of their own: an open frame cannot be released, only
 * reported.
 */
static void find_open(struct release *release, const uint64_t *mirror)
{
	for (uint32_t i = 1; i < PAGE_WORDS; i += 2)
		if (mirror[i] && is_stub(release, arch_frame_back((uint64_t)arch_mirror((uint64_t)&mirror[i]))))
			release->error = -EBUSY;
}

static void release_granule(struct release *release, struct space_leaf *leaf, uint64_t granule)
{
	uint64_t plane = plane_of(arch_mirror(granule << GRANULE_BITS)), entries[GRANULE_PAGES];
	bool known = release->pagemap >= 0 && SYS(pread64, release->pagemap, entries, sizeof(entries),
						  plane / PAGE * sizeof(entries[0]), 0, 0) == sizeof(entries);

	(void)leaf;
	for (uint32_t i = 0; i < GRANULE_PAGES && !release->error; i++) {
		if (known && !(entries[i] & PRESENT))
			continue;
		if (!has_frames((const uint64_t *)(plane + (uint64_t)i * PAGE)))
			continue;
		if (ARCH_FRAMES_GO_BACK)
			release_page(release, (uint64_t *)(plane + (uint64_t)i * PAGE));
		else
			find_open(release, (const uint64_t *)(plane + (uint64_t)i * PAGE));
	}
}

int probe_frames_release(uint32_t *frames, bool can, int memory)
{
	struct release release = {.can = can, .memory = memory, .lo = ~(uint64_t)0};
	uint64_t word = 1, copy = 0;

	*frames = 0;
	if (!sys_copy_in(&copy, (uint64_t)&word, sizeof(copy)) || copy != word)
		return -EBUSY; /* a stack that is gone could not be told from a stack that is there */
	for (uint32_t i = 0; i < probe_context.region_count; i++) {
		const struct probe_region *region = &probe_context.regions[i];

		release.lo = region->lo < release.lo ? region->lo : release.lo;
		release.hi = region->hi > release.hi ? region->hi : release.hi;
	}
	release.pagemap = (int)SYS(openat, AT_FDCWD, "/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	each_granule(&release, release_granule);
	if (release.pagemap >= 0)
		sys_close(release.pagemap);
	*frames = release.frames;
	return release.error;
}

/* Locked memory stays: its stale words are known to be stale. */
static void give_back(uint64_t at)
{
	SYS(madvise, at, GRANULE, MADV_DONTNEED, 0, 0, 0);
}

static void release_planes(struct release *release, struct space_leaf *leaf, uint64_t granule)
{
	uint64_t first = granule << GRANULE_BITS;

	(void)release;
	give_back(plane_of(arch_mirror(first)));
	give_back(plane_of(arch_link(first)));
	if (space_has(leaf, granule, SPACE_TIMED)) {
		give_back(plane_of(arch_entered(first)));
		give_back(plane_of(arch_within(first)));
	}
	if (space_has(leaf, granule, SPACE_HANDLED)) {
		give_back(plane_of(arch_who(first)));
		give_back(plane_of(arch_data(first)));
	}
}

void probe_stacks_release(void)
{
	each_granule(NULL, release_planes);
	for (uint64_t at = 0; at < SPACE_ROOT_SIZE; at++) {
		struct space_leaf *leaf = space_leaf(at << SPACE_LEAF_BITS);

		if (!leaf)
			continue;
		for (uint64_t i = 0; i < SPACE_LEAF_SIZE; i++)
			if (leaf->ends[i])
				probe_stack_ends_empty(leaf->ends[i]);
		/* A granule that could not have its planes may get them the next time. */
		memset(leaf->refused, 0, sizeof(leaf->refused));
	}
}

bool probe_thread_is_one(const struct probe_thread *thread)
{
	const struct ring_writer *first = probe_context.wiped->sets[0].writers;
	struct probe_thread copy;

	/* A thread that uses the thread pointer for something else has never recorded. */
	return sys_copy_in(&copy, (uint64_t)thread, sizeof(copy)) &&
	       (copy.writer == &probe_writer_none || (copy.writer >= first && copy.writer < first + PROBE_RINGS));
}

void probe_thread_renew(struct probe_thread *thread)
{
	static const struct probe_thread fresh = PROBE_THREAD_NEW;

	*thread = fresh;
}
