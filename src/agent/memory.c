/*
 * The memory that probes write: the part that a fork wipes, and the arenas
 * that the tool shares.  Called by the constructor and the control thread.
 * Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/space.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define TMPFS		0x01021994u /* f_type of tmpfs */
#define WRITERS_STEP_NS 200000

int agent_memory_init(void)
{
	const size_t size = AGENT_WIPED_SIZE;
	void *wiped = probe_map(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	long ret;

	if (sys_failed((long)wiped))
		return -ENOMEM;
	/* Without this a forked child would go on writing its parent's rings. */
	ret = SYS(madvise, wiped, size, MADV_WIPEONFORK, 0, 0, 0);
	if (sys_failed(ret)) {
		sys_munmap(wiped, size);
		return (int)ret;
	}
	probe_context.wiped = wiped;
	return 0;
}

/* True if the file is the tool's, and all of it is there: on tmpfs, and no other user's to cut short. */
static bool is_kept_file(int fd, uint64_t size)
{
	struct statfs system = {0};
	struct stat file = {0};

	if (sys_failed(SYS(fstatfs, fd, &system, 0, 0, 0, 0)) || sys_failed(SYS(fstat, fd, &file, 0, 0, 0, 0)))
		return false;
	return (uint64_t)system.f_type == TMPFS && S_ISREG(file.st_mode) && !(file.st_mode & 077) &&
	       (file.st_uid == 0 || file.st_uid == (uid_t)SYS(geteuid, 0, 0, 0, 0, 0, 0)) &&
	       (uint64_t)file.st_size >= size && (uint64_t)file.st_blocks * 512 >= size;
}

static bool is_sealed(int fd, uint64_t size, int seals)
{
	long has = SYS(fcntl, fd, F_GET_SEALS, 0, 0, 0, 0), end = SYS(lseek, fd, 0, SEEK_END, 0, 0, 0);

	return !sys_failed(has) && (has & seals) == seals && !sys_failed(end) && (uint64_t)end >= size;
}

void *agent_map(int fd, uint64_t size, int prot, int flags, int seals)
{
	if (!is_sealed(fd, size, seals) && (!agent.files || seals & F_SEAL_WRITE || !is_kept_file(fd, size)))
		return (void *)(long)-EPROTO;
	return probe_map(NULL, size, prot, flags, fd);
}

static bool ring_is_sane(const struct calltap_ring *ring, uint64_t stride)
{
	return ring->magic == CALLTAP_RING_MAGIC && ring->sub_count >= 2 && ring->sub_size >= CALLTAP_PAGE &&
	       !(ring->sub_size & (ring->sub_size - 1)) &&
	       CALLTAP_PAGE + (uint64_t)ring->sub_size * ring->sub_count <= stride;
}

static bool arena_is_sane(struct calltap_arena *arena, uint64_t size)
{
	uint64_t stride = arena->ring_stride;

	if (arena->magic != CALLTAP_ARENA_MAGIC || !arena->ring_count || arena->ring_count > CALLTAP_ARENA_RINGS ||
	    stride > size || stride % CALLTAP_PAGE || CALLTAP_PAGE + arena->ring_count * stride > size)
		return false;
	for (uint32_t i = 0; i < arena->ring_count; i++)
		if (!ring_is_sane(ring_at(arena, i), stride))
			return false;
	return true;
}

/* True if the set has writers for one more arena: each ring has a writer, and writers are handed out once. */
static bool has_writers(uint32_t index)
{
	const struct probe_set *set = &probe_context.wiped->sets[index];
	uint32_t before = probe_context.writers[index].base - probe_context.writers[index].first;

	return before + (set->arena_count + 1) * CALLTAP_ARENA_RINGS <= PROBE_RINGS;
}

/* Places in the list are free again where agent_arena_unmap() was. */
static int note_arena(const struct agent_mapped *made)
{
	struct agent_mapped *arenas = agent.arenas.list;

	for (size_t i = 0; i < agent.arenas.count; i++)
		if (!arenas[i].size) {
			arenas[i].at = made->at;
			arenas[i].generation = made->generation;
			__atomic_store_n(&arenas[i].size, made->size, __ATOMIC_RELEASE);
			return 0;
		}
	agent.arenas.size = sizeof(*made);
	return agent_store_add(&agent.arenas, made, 1);
}

/* A child that is forked meanwhile knows of none that it has not (plans.c): it may have other memory there later. */
void agent_arena_unmap(struct agent_mapped *arena)
{
	const uint64_t size = arena->size;

	arena->generation = 0;
	__atomic_store_n(&arena->size, 0, __ATOMIC_RELEASE);
	sys_munmap(arena->at, size);
}

int agent_arena_add(uint32_t index, uint32_t generation, int fd, uint64_t size)
{
	struct probe_set *set = &probe_context.wiped->sets[index];
	struct agent_mapped made = {.size = size, .generation = generation};
	struct calltap_arena *arena;
	int ret;

	if (!has_writers(index))
		return -ENOSPC;
	if (size < 2 * CALLTAP_PAGE)
		return -EPROTO;
	arena = agent_map(fd, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, F_SEAL_SHRINK);
	if (sys_failed((long)arena))
		return (int)(long)arena;
	made.at = arena;
	ret = arena_is_sane(arena, size) ? note_arena(&made) : -EPROTO;
	if (ret) {
		sys_munmap(arena, size);
		return ret;
	}
	/* The tool saves the rings; a core dump need not hold them again, unless it may be all there is. */
	if (!agent.keep || index)
		SYS(madvise, arena, size, MADV_DONTDUMP, 0, 0, 0);
	set->arenas[set->arena_count] = arena;
	__atomic_add_fetch(&set->arena_count, 1, __ATOMIC_RELEASE); /* pairs with claim_any */
	sys_futex_wake(&set->arena_count);
	return 0;
}

/* True if a thread waits for room in its ring; wake: wake all that do. */
static bool find_waiting(bool wake)
{
	struct probe_set *set = &probe_context.wiped->sets[0]; /* threads wait in set 0 alone */
	bool found = false;

	for (uint32_t i = 0; i < set->arena_count; i++)
		for (uint32_t k = 0; k < set->arenas[i]->ring_count && k < CALLTAP_ARENA_RINGS; k++) {
			struct calltap_ring *ring = ring_at(set->arenas[i], k);

			if (!__atomic_load_n(&ring->waiting, __ATOMIC_RELAXED))
				continue;
			found = true;
			if (wake)
				sys_futex_wake(&ring->wake);
		}
	return found;
}

void agent_wake_writers(void)
{
	find_waiting(true);
	sys_futex_wake(&probe_context.wiped->sets[0].arena_count);
}

void agent_await_writers(void)
{
	const struct sys_timespec step = {0, WRITERS_STEP_NS};
	uint64_t until = sys_monotonic_ns() + probe_context.shared.wait_max_ms * 1000000ull;

	while (find_waiting(false) && sys_monotonic_ns() < until)
		SYS(nanosleep, &step, NULL, 0, 0, 0, 0);
}

void agent_memory_release(void)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct agent_mapped *arenas = agent.arenas.list;

	for (size_t i = 0; i < agent.arenas.count; i++)
		if (arenas[i].size)
			agent_arena_unmap(&arenas[i]);
	agent_store_empty(&agent.arenas);
	agent_unmap(probe_context.shared.board, CALLTAP_PAGE);
	memset(probe_context.writers, 0, sizeof(probe_context.writers));
	if (sys_failed(SYS(madvise, wiped, AGENT_WIPED_SIZE, MADV_DONTNEED, 0, 0, 0))) /* locked */
		memset(wiped, 0, sizeof(*wiped));
	wiped->served = 1;
}

/* True if the arena is this process' own: a fork has copied the list, and arenas from before it are the parent's. */
static bool is_own(const struct agent_mapped *arena)
{
	const struct probe_set *set = &probe_context.wiped->sets[0];

	for (uint32_t i = 0; i < set->arena_count; i++)
		if (set->arenas[i] == arena->at)
			return true;
	return arena->generation > agent.instances_inherited;
}

/* Give back a range of a ring's data, by sub-buffers. */
static void give_back(struct calltap_ring *ring, uint64_t sub_size, uint64_t from, uint64_t to)
{
	if (from < to)
		SYS(madvise, (char *)ring + CALLTAP_PAGE + from * sub_size, (to - from) * sub_size, MADV_REMOVE, 0, 0,
		    0);
}

/* The sizes are copied and checked again, for the program can have written there. */
static void empty_ring(struct calltap_ring *ring, uint64_t stride)
{
	const struct calltap_ring seen = *ring;
	uint64_t open;

	if (!ring_is_sane(&seen, stride))
		return;
	if (seen.mode == CALLTAP_MODE_PROFILE) {
		give_back(ring, seen.sub_size, 0, seen.sub_count); /* all zeros is an empty table */
	} else if (seen.opened) {
		open = (seen.opened - 1) % seen.sub_count;
		give_back(ring, seen.sub_size, 0, open);
		give_back(ring, seen.sub_size, open + 1, seen.sub_count);
	}
}

void agent_rings_empty(void)
{
	const struct agent_mapped *arenas = agent.arenas.list;

	for (size_t i = 0; i < agent.arenas.count; i++) {
		struct calltap_arena *arena = arenas[i].at;
		uint64_t stride;

		if (!arenas[i].size || !is_own(&arenas[i]))
			continue;
		stride = arena->ring_stride;
		if (stride < 2 * CALLTAP_PAGE || stride % CALLTAP_PAGE)
			continue;
		for (uint64_t at = CALLTAP_PAGE; at + stride <= arenas[i].size; at += stride)
			empty_ring((struct calltap_ring *)((char *)arena + at), stride);
	}
}

/* Program threads may fork meanwhile: the child's store has a list that is mapped, at any time (plans.c). */
static void replace_list(struct agent_store *store, void *list, size_t room)
{
	void *old = store->list;
	const size_t old_room = store->room;

	/* In between the room is too small, at worst: then a part of the list stays mapped for good. */
	__atomic_store_n(&store->room, room < old_room ? room : old_room, __ATOMIC_RELEASE);
	__atomic_store_n(&store->list, list, __ATOMIC_RELEASE);
	__atomic_store_n(&store->room, room, __ATOMIC_RELEASE);
	if (old_room)
		sys_munmap(old, old_room);
}

int agent_store_add(struct agent_store *store, const void *elements, size_t count)
{
	size_t used = store->count * store->size, more = count * store->size, room = store->room;
	void *list;

	if (used + more > room) {
		room = (2 * room > used + more ? 2 * room : used + more) + CALLTAP_PAGE;
		room &= ~(size_t)(CALLTAP_PAGE - 1);
		list = sys_mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (sys_failed((long)list))
			return -ENOMEM;
		memcpy(list, store->list, used);
		replace_list(store, list, room);
	}
	memcpy((char *)store->list + used, elements, more);
	store->count += count;
	return 0;
}

void agent_store_empty(struct agent_store *store)
{
	store->count = 0;
	replace_list(store, NULL, 0);
}

bool agent_copy_in(void *to, uint64_t from, size_t size)
{
	uint64_t local[2] = {(uint64_t)to, size}, remote[2] = {from, size};
	long ret = SYS(process_vm_readv, sys_gettid(), local, 1, remote, 1, 0);

	if (ret == -ENOSYS && agent.poker.mem_fd >= 0) /* an emulator's */
		ret = SYS(pread64, agent.poker.mem_fd, to, size, from, 0, 0);
	return ret == (long)size;
}

unsigned agent_readable_pages(uint64_t page, uint64_t count)
{
	char bytes[AGENT_PAGES_MAX];
	struct iovec here = {bytes, count < AGENT_PAGES_MAX ? count : AGENT_PAGES_MAX}, there[AGENT_PAGES_MAX];
	long ret;

	for (unsigned i = 0; i < here.iov_len; i++)
		there[i] = (struct iovec){(void *)(page + i * CALLTAP_PAGE), 1};
	ret = SYS(process_vm_readv, sys_gettid(), &here, 1, there, here.iov_len, 0);
	if (ret == -ENOSYS || ret == -EFAULT)
		return agent_can_read(page); /* an emulator has no such call */
	return sys_failed(ret) ? 1 : (unsigned)ret;
}

bool agent_can_read(uint64_t address)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)address, 1};
	long ret = SYS(process_vm_readv, sys_gettid(), &here, 1, &there, 1, 0);

	if (ret == -ENOSYS && agent.poker.mem_fd >= 0) /* an emulator has no such call */
		return SYS(pread64, agent.poker.mem_fd, &byte, 1, address, 0, 0) == 1;
	return ret != -EFAULT;
}
