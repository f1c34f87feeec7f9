/*
 * The memory that probes write: the part that a fork wipes, and the arenas
 * that the tool shares.  Called by the constructor and the control thread.
 * Context: control.
 */
#include <errno.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

int agent_memory_init(void)
{
	size_t size = (sizeof(struct probe_wiped) + CALLTAP_PAGE - 1) & ~(size_t)(CALLTAP_PAGE - 1);
	void *wiped = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long ret;

	if (sys_failed((long)wiped))
		return -ENOMEM;
	/* Without it a forked child would go on writing its parent's rings. */
	ret = SYS(madvise, wiped, size, MADV_WIPEONFORK, 0, 0, 0);
	if (sys_failed(ret)) {
		sys_munmap(wiped, size);
		return (int)ret;
	}
	probe_context.wiped = wiped;
	return 0;
}

static int arena_is_sane(struct calltap_arena *arena, uint64_t size)
{
	const struct calltap_ring *ring = ring_at(arena, 0);
	uint64_t ring_size = CALLTAP_PAGE + (uint64_t)ring->sub_size * ring->sub_count;

	return arena->magic == CALLTAP_ARENA_MAGIC && arena->ring_count && arena->ring_count <= CALLTAP_ARENA_RINGS &&
	       ring->magic == CALLTAP_RING_MAGIC && ring->sub_count >= 2 && ring_size <= arena->ring_stride &&
	       CALLTAP_PAGE + arena->ring_count * arena->ring_stride <= size;
}

int agent_arena_add(int fd, uint64_t size)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct calltap_arena *arena;

	if (wiped->arena_count >= PROBE_ARENAS)
		return -ENOSPC;
	arena = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (sys_failed((long)arena))
		return -ENOMEM;
	if (size < 2 * CALLTAP_PAGE || !arena_is_sane(arena, size)) {
		sys_munmap(arena, size);
		return -EPROTO;
	}
	/* The rings are the tool's to save; a core dump need not hold them again. */
	SYS(madvise, arena, size, MADV_DONTDUMP, 0, 0, 0);
	wiped->arenas[wiped->arena_count] = arena;
	__atomic_add_fetch(&wiped->arena_count, 1, __ATOMIC_RELEASE); /* pairs with claim_any */
	sys_futex_wake(&wiped->arena_count);
	return 0;
}

void agent_wake_writers(void)
{
	struct probe_wiped *wiped = probe_context.wiped;

	for (uint32_t i = 0; i < wiped->arena_count; i++)
		for (uint32_t k = 0; k < wiped->arenas[i]->ring_count && k < CALLTAP_ARENA_RINGS; k++) {
			struct calltap_arena *arena = wiped->arenas[i];
			struct calltap_ring *ring = ring_at(arena, k);

			if (__atomic_load_n(&ring->waiting, __ATOMIC_RELAXED))
				sys_futex_wake(&ring->wake);
		}
	sys_futex_wake(&wiped->arena_count);
}
