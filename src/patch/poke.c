/*
 * Writing to text (poke.h).  Called by the files of this room and by the agent room's control thread.  Context:
 * control.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/poke.h>

#define PAGE			      4096ul
#define MEMBARRIER_SYNC_CORE	      (1 << 5)
#define MEMBARRIER_REGISTER_SYNC_CORE (1 << 6)

/*
 * True if the file shows the agent's own memory.  An emulator's file may show the emulator's, where the program lies at
 * other addresses.
 */
static bool is_our_memory(int fd)
{
	uint64_t page[8];

	return SYS(pread64, fd, page, sizeof(page), arch_scratch_page, 0, 0) == sizeof(page) &&
	       !memcmp(page, arch_scratch_page, sizeof(page));
}

/* thread-self, for /proc/self shows no memory once the initial thread has ended and others run on. */
void patch_poker_open(struct patch_poker *poker)
{
	long fd = SYS(openat, AT_FDCWD, "/proc/thread-self/mem", O_RDWR | O_CLOEXEC, 0, 0, 0);

	*poker = (struct patch_poker){.mem_fd = sys_failed(fd) ? -1 : (int)fd};
	if (poker->mem_fd >= 0 && !is_our_memory(poker->mem_fd)) {
		sys_close(poker->mem_fd);
		poker->mem_fd = -1;
	}
}

void patch_poker_take(struct patch_poker *poker, int fd)
{
	long copy = poker->mem_fd < 0 && is_our_memory(fd) ? SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0, 0, 0, 0) : -1;

	if (!sys_failed(copy))
		poker->mem_fd = (int)copy;
}

/* Write code that threads may be running: they see an aligned word as it was or as it will be. */
static void store(uint64_t address, const void *bytes, size_t size)
{
	uint32_t word;

	if (size != sizeof(word) || address % sizeof(word)) {
		memcpy((void *)address, bytes, size);
		return;
	}
	memcpy(&word, bytes, size);
	__atomic_store_n((uint32_t *)address, word, __ATOMIC_RELAXED);
}

/* meanwhile: the pages' protection while they are written. */
static int write_in_place(uint64_t address, const void *bytes, size_t size, int meanwhile)
{
	uint64_t lo = address & ~(PAGE - 1), hi = (address + size + PAGE - 1) & ~(PAGE - 1);
	long ret = SYS(mprotect, lo, hi - lo, meanwhile, 0, 0, 0);

	if (sys_failed(ret))
		return (int)ret;
	store(address, bytes, size);
	arch_text_written(address, size);
	ret = SYS(mprotect, lo, hi - lo, PROT_READ | PROT_EXEC, 0, 0, 0);
	return sys_failed(ret) ? (int)ret : 0;
}

/*
 * A security module may refuse to make changed text executable again, which would be the program's end.  So the agent
 * first tries the way there and back on a page of its own.
 */
static int poke_by_mprotect(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	uint64_t page = (uint64_t)arch_scratch_page;
	uint8_t same = arch_scratch_page[0];

	if (!poker->mprotect)
		poker->mprotect = write_in_place(page, &same, 1, PROT_READ | PROT_WRITE) ? -1 : 1;
	return poker->mprotect > 0 ? write_in_place(address, bytes, size, PROT_READ | PROT_WRITE) : -EACCES;
}

static int write_to_mem(const struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	long done = SYS(pwrite64, poker->mem_fd, bytes, size, address, 0, 0);

	if (sys_failed(done))
		return (int)done;
	return (size_t)done == size ? 0 : -EIO;
}

/* Run a function of the agent's, change it through mem_fd, and see whether it returns another number. */
static bool is_seen(const struct patch_poker *poker)
{
	int (*scratch)(void) = (int (*)(void))(uintptr_t)arch_scratch_page;
	struct arch_write change = arch_scratch_change();
	uint64_t at = (uint64_t)arch_scratch_page + change.offset;
	uint8_t before[sizeof(change.bytes)];
	int first = scratch(), second = first;
	bool synced;

	memcpy(before, (const void *)at, change.size);
	if (write_to_mem(poker, at, change.bytes, change.size))
		return true; /* the caller's write will fail, too */
	synced = !patch_sync();
	if (synced)
		second = scratch();
	return write_to_mem(poker, at, before, change.size) || !synced || second != first;
}

/* True if writes through mem_fd do not reach code that has run.  Tried once, before live text is first changed. */
static bool must_write_in_place(struct patch_poker *poker)
{
	if (!poker->seen)
		poker->seen = is_seen(poker) ? 1 : -1;
	return poker->seen < 0;
}

int patch_poke(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	uint8_t word[4];

	/* Write half a word as the aligned word around it: one store, here and in the kernel. */
	if (size == sizeof(word) / 2 && address % size == 0) {
		uint64_t at = address & ~(uint64_t)3;

		memcpy(word, (const void *)at, sizeof(word));
		memcpy(word + (address - at), bytes, size);
		return patch_poke(poker, at, word, sizeof(word));
	}
	if (poker->mem_fd >= 0 && must_write_in_place(poker))
		return write_in_place(address, bytes, size, PROT_READ | PROT_WRITE | PROT_EXEC);
	return write_to_mem(poker, address, bytes, size);
}

int patch_poke_fresh(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	return write_to_mem(poker, address, bytes, size) ? poke_by_mprotect(poker, address, bytes, size) : 0;
}

void patch_sync_prepare(void)
{
	SYS(membarrier, MEMBARRIER_REGISTER_SYNC_CORE, 0, 0, 0, 0, 0);
}

int patch_sync(void)
{
	long ret = SYS(membarrier, MEMBARRIER_SYNC_CORE, 0, 0, 0, 0, 0);

	if (sys_failed(ret)) {
		patch_sync_prepare();
		ret = SYS(membarrier, MEMBARRIER_SYNC_CORE, 0, 0, 0, 0, 0);
	}
	return sys_failed(ret) ? arch_text_sync() : 0;
}
