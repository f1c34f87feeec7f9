/*
 * Writing to text (poke.h).  Called by sites.c and the agent room's control
 * thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/poke.h>

#define PAGE			      4096ul
#define MEMBARRIER_SYNC_CORE	      (1 << 5)
#define MEMBARRIER_REGISTER_SYNC_CORE (1 << 6)

void patch_poker_open(struct patch_poker *poker)
{
	long fd = SYS(openat, AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0, 0, 0);

	poker->mem_fd = sys_failed(fd) ? -1 : (int)fd;
	poker->mprotect = 0;
}

static int write_by_mprotect(uint64_t address, const void *bytes, size_t size)
{
	uint64_t lo = address & ~(PAGE - 1), hi = (address + size + PAGE - 1) & ~(PAGE - 1);
	long ret = SYS(mprotect, lo, hi - lo, PROT_READ | PROT_WRITE, 0, 0, 0);

	if (sys_failed(ret))
		return (int)ret;
	memcpy((void *)address, bytes, size);
	ret = SYS(mprotect, lo, hi - lo, PROT_READ | PROT_EXEC, 0, 0, 0);
	return sys_failed(ret) ? (int)ret : 0;
}

/*
 * A security module may refuse to make changed text executable again, which
 * would be the program's end: the way there and back is tried on a page of ours.
 */
static int poke_by_mprotect(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	uint8_t same = arch_scratch_page[0];

	if (!poker->mprotect)
		poker->mprotect = write_by_mprotect((uint64_t)arch_scratch_page, &same, 1) ? -1 : 1;
	return poker->mprotect > 0 ? write_by_mprotect(address, bytes, size) : -EACCES;
}

int patch_poke(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	long done = SYS(pwrite64, poker->mem_fd, bytes, size, address, 0, 0);

	if (sys_failed(done))
		return (int)done;
	return (size_t)done == size ? 0 : -EIO;
}

int patch_poke_fresh(struct patch_poker *poker, uint64_t address, const void *bytes, size_t size)
{
	return patch_poke(poker, address, bytes, size) ? poke_by_mprotect(poker, address, bytes, size) : 0;
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
	return sys_failed(ret) ? (int)ret : 0;
}
