/*
 * The blocks of threads where no loader gives the agent thread-local memory: a table leads from a thread's id, as libc
 * has noted it, to its block (by_id/thread_block.h beside the CPU's arch.h).
 *
 * A block is made at a thread's first slow path.  It is used again when its thread has ended, and retired before that
 * if the thread's ring goes to another one.  doc/design/loaderless.md.  Context: probe, slow path.
 */
#include <linux/mman.h>

#include <base/mem.h>
#include <base/sys.h>
#include <probe/space.h>
#include <probe/thread.h>

#define IDS	   (1u << 22) /* thread ids are below: Linux' PID_MAX_LIMIT */
#define BLOCKS_MAX (1u << 16)
#define OWNED_SIZE (IDS * sizeof(uint64_t) + BLOCKS_MAX * sizeof(struct owned))
#define LOOKS	   2 /* at blocks whose thread may have ended, for each new one: so the ended ones get fewer */

struct owned {
	uint64_t pointer; /* the thread pointer of its thread; 0 = of none */
	uint32_t id;	  /* of its thread; 0 = being made */
	uint32_t born;	  /* counts up: of two with a thread pointer the later one is in use */
	struct probe_thread thread;
};
_Static_assert(offsetof(struct owned, thread) == 16, "thread_offset.inc");

/* What assembly takes for the block of a thread that has none.  Nobody writes it, and its granule covers nothing. */
extern struct owned arch_nobody __attribute__((visibility("hidden")));
struct owned arch_nobody = {.thread = PROBE_THREAD_NEW};
/* The block, in C, of a thread without an id: one that libc is ending.  It never gets a ring. */
static struct owned outsider = {.thread = PROBE_THREAD_NEW};
static const struct probe_thread fresh = PROBE_THREAD_NEW;

struct arch_owners arch_owners;
static struct owned *pool;
static uint32_t pool_used, pool_look, births;

bool probe_owned_init(void)
{
	const size_t size = OWNED_SIZE;
	void *memory;

	if (pool)
		return true;
	memory = probe_map(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (sys_failed((long)memory))
		return false;
	/* Sparse by nature. */
	SYS(madvise, memory, size, MADV_NOHUGEPAGE, 0, 0, 0);
	arch_owners.table = memory;
	pool = (struct owned *)((char *)memory + IDS * sizeof(uint64_t));
	return true;
}

/* How many blocks of the pool may be in use. */
static uint32_t count_used(void)
{
	uint32_t used = __atomic_load_n(&pool_used, __ATOMIC_ACQUIRE);

	return used < BLOCKS_MAX ? used : BLOCKS_MAX;
}

void probe_owned_forget(void)
{
	/* Given back, the memory reads as zeros: no thread has a block.  Locked memory cannot be given back. */
	if (!pool)
		return;
	if (sys_failed(SYS(madvise, arch_owners.table, OWNED_SIZE, MADV_DONTNEED, 0, 0, 0))) {
		for (uint32_t i = 0; i < count_used(); i++) {
			arch_owners.table[pool[i].id] = 0;
			pool[i] = (struct owned){0};
		}
	}
	pool_used = 0;
	outsider.thread = fresh;
}

static uint64_t entry_of(const struct owned *block)
{
	return (uint64_t)block - (uint64_t)&arch_nobody;
}

static struct owned *block_of(uint64_t entry)
{
	return (struct owned *)((uint64_t)&arch_nobody + entry);
}

/* The block that was made last for that thread pointer; NULL = none. */
static struct owned *find_last(uint64_t pointer)
{
	uint32_t used = count_used();
	struct owned *found = NULL;

	for (uint32_t i = 0; i < used; i++)
		if (pool[i].pointer == pointer && (!found || pool[i].born > found->born))
			found = &pool[i];
	return found;
}

/* A block whose thread has ended, taken from it; NULL = none was found.  Only in the process that owns the threads. */
static struct owned *take_ended(void)
{
	uint32_t used = count_used();

	for (unsigned i = 0; used && i < LOOKS; i++) {
		struct owned *block = &pool[__atomic_fetch_add(&pool_look, 1, __ATOMIC_RELAXED) % used];
		uint32_t id = __atomic_load_n(&block->id, __ATOMIC_ACQUIRE);
		uint64_t entry = entry_of(block);

		if (!id || SYS(tgkill, probe_context.wiped->pid, id, 0, 0, 0, 0) != -3 /* ESRCH */ ||
		    !__atomic_compare_exchange_n(&block->id, &id, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&block->pointer, 0, __ATOMIC_RELEASE);
		__atomic_compare_exchange_n(&arch_owners.table[id], &entry, 0, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
		return block;
	}
	return NULL;
}

static struct owned *take_unused(void)
{
	uint32_t at = count_used();

	while (at < BLOCKS_MAX &&
	       !__atomic_compare_exchange_n(&pool_used, &at, at + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	return at < BLOCKS_MAX ? &pool[at] : NULL;
}

/* In a forked child, whose one thread has another id than in its parent: that thread's block. */
static struct owned *take_forked(uint64_t pointer)
{
	struct owned *block = probe_context.wiped->alive ? NULL : find_last(pointer);

	if (block)
		__atomic_store_n(&arch_owners.table[block->id], 0, __ATOMIC_RELEASE);
	return block;
}

/* Signals are blocked, or no system call may be made. */
static struct owned *make_block(uint64_t pointer, uint32_t id, bool calls)
{
	struct owned *block = take_forked(pointer);

	if (block) {
		block->id = id;
		return block;
	}
	/* The child of a vfork is another process, for which all these threads have ended. */
	if (calls && (uint32_t)sys_getpid() == probe_context.wiped->pid)
		block = take_ended();
	if (!block)
		block = take_unused();
	if (!block)
		return NULL;
	block->thread = fresh;
	block->born = __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED);
	block->pointer = pointer;
	__atomic_store_n(&block->id, id, __ATOMIC_RELEASE); /* pairs with take_ended() */
	return block;
}

static void *make(uint64_t pointer, uint32_t id)
{
	uint64_t signals, before = __atomic_load_n(&arch_owners.table[id], __ATOMIC_RELAXED);
	bool calls = probe_calls_begin(&signals);
	struct owned *block = make_block(pointer, id, calls);

	/* Where signals cannot be blocked, a handler may have made the thread's block meanwhile. */
	if (block &&
	    !__atomic_compare_exchange_n(&arch_owners.table[id], &before, entry_of(block), false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED) &&
	    block_of(before)->pointer == pointer) {
		block->pointer = 0;
		block = block_of(before);
	}
	if (calls)
		probe_calls_end(&signals);
	return block ? &block->thread : &outsider.thread;
}

void *probe_owned(void)
{
	uint64_t pointer = (uint64_t)__builtin_thread_pointer(), entry;
	uint32_t id = *(const uint32_t *)(pointer + (uint64_t)arch_owners.id_offset);

	if (!id || id >= IDS)
		return &outsider.thread;
	entry = __atomic_load_n(&arch_owners.table[id], __ATOMIC_ACQUIRE);
	if (entry && block_of(entry)->pointer == pointer)
		return &block_of(entry)->thread;
	return make(pointer, id);
}

uint64_t probe_owned_by(uint64_t pointer)
{
	struct owned *block = find_last(pointer);

	return block ? (uint64_t)&block->thread : 0;
}

static struct owned *around(const void *block)
{
	return (struct owned *)((uint64_t)block - offsetof(struct owned, thread));
}

bool probe_owned_has_id(const void *block, int id)
{
	uint32_t noted = around(block)->id, pid = probe_context.wiped->pid;

	/*
	 * A program that forks by a system call of its own leaves libc's note as it was: in the child, whose one thread
	 * has the process' id, it is the id of no thread.
	 */
	return noted == (uint32_t)id ||
	       (noted && (uint32_t)id == pid && SYS(tgkill, pid, noted, 0, 0, 0, 0) == -3 /* ESRCH */);
}

void probe_owned_retire(void *block, const void *writer)
{
	/* The block may be another thread's by now, which has another writer. */
	if (around(block)->thread.writer == writer)
		__atomic_store_n(&around(block)->pointer, 0, __ATOMIC_RELEASE);
}
