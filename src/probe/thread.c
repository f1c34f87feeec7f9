/*
 * A thread's way into the trace: its ring, and records off the fast path.
 *
 * Called from the recorders' C half (graph.c).  Context: probe, slow
 * path: raw system calls when a thread starts, a sub-buffer ends or a process
 * was forked; bounded loops; own memory.
 */
#include <base/sys.h>
#include <offsets.h>
#include <probe/thread.h>

_Static_assert(offsetof(struct probe_thread, writer) == PT_WRITER, "entry.S");
_Static_assert(offsetof(struct probe_thread, granule) == PT_GRANULE, "entry.S");
_Static_assert(offsetof(struct probe_thread, stack) == PT_STACK, "entry.S");
_Static_assert(offsetof(struct probe_stack, top) == PS_TOP, "entry.S");
_Static_assert(offsetof(struct probe_stack, low) == PS_LOW, "entry.S");
_Static_assert(offsetof(struct probe_thread, gate) == PT_GATE, "entry.S");

#define DEPTH_MAX     1024     /* bytes of stack that slow paths take at the most */
#define CLAIM_WAIT_NS 2000000u /* block mode: how long a new thread waits for a ring at a time */
#define CLAIM_WAITS   250
#define CLAIM_RETRY   1024 /* calls between tries of a thread that got none */

/* span 0 sends every record to the slow path; the cursor is shared rubbish. */
static struct ring_writer nil_writer;

__thread struct probe_thread probe_thread __attribute__((tls_model("initial-exec"))) = {
	.writer = &nil_writer,
	.granule = PROBE_NO_GRANULE,
	.stack = &probe_stack_none,
};
struct probe_context probe_context;

const struct probe_region *probe_region_of(uint64_t address)
{
	/* Acquire: pairs with the control side's append (region_add). */
	uint32_t n = __atomic_load_n(&probe_context.region_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++)
		if (address >= probe_context.regions[i].lo && address < probe_context.regions[i].hi)
			return &probe_context.regions[i];
	return NULL;
}

/*
 * Where the stack ends below us, the program may have a SIGSEGV handler for
 * that on another stack; met with signals blocked, the kernel would kill it.
 * So the fault comes here, before anything is begun.
 */
static void touch_stack(void)
{
	(void)*((volatile const char *)__builtin_frame_address(0) - DEPTH_MAX);
}

bool probe_calls_begin(uint64_t *signals)
{
	touch_stack();
	/* Sequentially consistent, with the store of `quiet` (sandbox.c): we see it, or it waits for us. */
	__atomic_add_fetch(&probe_context.wiped->calling, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&probe_context.shared.quiet, __ATOMIC_SEQ_CST)) {
		__atomic_sub_fetch(&probe_context.wiped->calling, 1, __ATOMIC_RELEASE);
		return false;
	}
	sys_signals_block(signals);
	return true;
}

void probe_calls_end(const uint64_t *signals)
{
	sys_signals_restore(signals);
	__atomic_sub_fetch(&probe_context.wiped->calling, 1, __ATOMIC_RELEASE);
}

/*
 * The writer of a ring.  The thread that a fork leaves in the child still
 * points to a writer of its parent's until its next record: those below
 * writers_base are not handed out again, or two threads would share one.
 */
static struct ring_writer *writer_of(uint32_t ring)
{
	uint32_t at = probe_context.writers_base + ring;
	uint32_t used = __atomic_load_n(&probe_context.writers_used, __ATOMIC_RELAXED);

	while (used <= at && !__atomic_compare_exchange_n(&probe_context.writers_used, &used, at + 1, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return &probe_context.wiped->writers[at % PROBE_RINGS];
}

static bool claim(struct probe_thread *thread, uint32_t arena, uint32_t index, uint32_t from, int tid)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct calltap_arena *a = wiped->arenas[arena];

	/* Acquire: the last owner's counters, and the tool's release of the ring. */
	if (!__atomic_compare_exchange_n(&a->state[index], &from, CALLTAP_RING_CLAIMED + (uint32_t)tid, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	__atomic_add_fetch(&a->claimed, 1, __ATOMIC_RELAXED);
	thread->writer = writer_of(arena * CALLTAP_ARENA_RINGS + index);
	ring_attach(thread->writer, ring_at(a, index), tid, !probe_context.shared.quiet);
	return true;
}

/* A ring that is free or, with take_over, one whose thread has ended. */
static bool claim_any(struct probe_thread *thread, int tid, bool take_over)
{
	struct probe_wiped *wiped = probe_context.wiped;
	uint32_t arenas = __atomic_load_n(&wiped->arena_count, __ATOMIC_ACQUIRE); /* pairs with agent_arena_add */

	for (uint32_t i = 0; i < arenas; i++) {
		struct calltap_arena *arena = wiped->arenas[i];

		for (uint32_t k = 0; k < arena->ring_count && k < CALLTAP_ARENA_RINGS; k++) {
			uint32_t state = __atomic_load_n(&arena->state[k], __ATOMIC_RELAXED);
			uint32_t owner = state - CALLTAP_RING_CLAIMED;

			if (state == CALLTAP_RING_FREE) {
				if (claim(thread, i, k, state, tid))
					return true;
			} else if (take_over &&
				   (owner == (uint32_t)tid || SYS(tgkill, wiped->pid, owner, 0, 0, 0, 0) == -3)) {
				/* -ESRCH, or a thread that had our id before us */
				if (claim(thread, i, k, state, tid))
					return true;
			}
		}
	}
	return false;
}

/* Signals are blocked. */
static bool attach_blocked(struct probe_thread *thread)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct calltap_arena *arena = wiped->arenas[0];
	int tid = sys_gettid(), waits = 0;

	/* vfork's child runs on its parent's thread block: a ring it took would be claimed under an id that ends. */
	if ((uint32_t)sys_getpid() != wiped->pid || tid <= 0)
		return false;
	if (claim_any(thread, tid, false) || claim_any(thread, tid, true))
		return true;
	/* Let the tool know; it adds an arena.  In block mode nothing is to be lost, so wait a little. */
	while (arena && waits++ < CLAIM_WAITS && !probe_context.shared.reader_gone) {
		__atomic_add_fetch(&arena->starved, 1, __ATOMIC_RELAXED);
		ring_bell(probe_context.shared.board);
		/* Once in vain is enough, until there is another arena: the tool may be stopped. */
		if (ring_at(arena, 0)->mode != CALLTAP_MODE_BLOCK || wiped->claim_vain == wiped->arena_count)
			break;
		sys_futex_wait(&wiped->arena_count, wiped->arena_count, CLAIM_WAIT_NS);
		if (claim_any(thread, tid, false) || claim_any(thread, tid, true))
			return true;
	}
	if (waits > CLAIM_WAITS)
		wiped->claim_vain = wiped->arena_count;
	thread->attach_try = CLAIM_RETRY;
	return false;
}

/* In a sandbox: a ring that is free, under the id that libc has noted, or none. */
static bool attach_quietly(struct probe_thread *thread)
{
	struct probe_wiped *wiped = probe_context.wiped;
	const char *pointer = __builtin_thread_pointer();

	if (!wiped->alive) /* a forked child, which cannot call the tool */
		probe_context.enabled = 0;
	else if (probe_context.enabled && probe_context.tid_offset &&
		 claim_any(thread, *(const int *)(pointer + probe_context.tid_offset), false))
		return true;
	thread->attach_try = CLAIM_RETRY;
	return false;
}

static void open_gate(struct probe_thread *thread)
{
	if (thread->ready)
		return;
	thread->gate = probe_context.tree_filter ? ~(uint64_t)0 : 0;
	thread->ready = 1;
}

bool probe_thread_attach(struct probe_thread *thread)
{
	struct probe_wiped *wiped = probe_context.wiped;
	uint64_t signals;
	bool done;

	if (thread->writer->ring && wiped->alive)
		return true;
	if (thread->attach_try) {
		thread->attach_try--;
		return false;
	}
	if (!probe_calls_begin(&signals)) {
		open_gate(thread);
		return attach_quietly(thread);
	}
	if (!wiped->alive)
		probe_context.on_new_process();
	done = wiped->alive && probe_context.enabled && (thread->writer->ring || attach_blocked(thread));
	open_gate(thread);
	probe_calls_end(&signals);
	return done;
}

/* A handler may have opened one while we came here: then just try again. */
static bool open_next(struct ring_writer *writer, unsigned words)
{
	return writer->ring && (ring_is_open(writer, words) || ring_open_next(writer, &probe_context.shared));
}

/* Where signals cannot be blocked, a handler that comes in between goes without. */
static bool open_quietly(struct ring_writer *writer, unsigned words)
{
	bool open;

	if (__atomic_exchange_n(&probe_thread.opening, 1, __ATOMIC_RELAXED))
		return false;
	open = open_next(writer, words);
	__atomic_signal_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&probe_thread.opening, 0, __ATOMIC_RELAXED);
	return open;
}

/* Slots in the open sub-buffer or the next one; NULL = lost, and counted. */
static uint64_t *take(struct ring_writer *writer, unsigned words)
{
	uint64_t *slot = ring_take(writer, words);
	uint64_t signals;

	while (!slot) {
		struct calltap_ring *ring;
		bool open = false;

		if (writer->lost && !ring_has_room(writer)) {
			/* Nothing has changed since the last time. */
		} else if (probe_calls_begin(&signals)) {
			open = open_next(writer, words);
			probe_calls_end(&signals);
		} else {
			open = open_quietly(writer, words);
		}
		if (!open) {
			/* NULL: a handler has forked, and this is the child, whose writers were wiped. */
			ring = writer->ring;
			if (ring) {
				arch_local_add(&writer->lost, 1);
				arch_local_add(&ring->lost, 1);
			}
			return NULL;
		}
		slot = ring_take(writer, words);
	}
	return slot;
}

/* Say that the clock's high half has moved on; false when there is no room. */
static bool mark_time(struct ring_writer *writer)
{
	uint64_t *slot = take(writer, 2), now;

	if (!slot)
		return false;
	now = arch_clock();
	ring_put2(slot, calltap_record_make(CALLTAP_REC_TIME, 0, (uint32_t)now), now);
	writer->time_hi = (uint32_t)(now >> 32);
	return true;
}

bool probe_record(struct probe_thread *thread, enum calltap_record_kind kind, uint32_t id, unsigned words,
		  uint64_t second)
{
	struct ring_writer *writer = thread->writer;
	uint64_t *slot, now;

	for (;;) {
		now = arch_clock();
		if (writer->span && writer->time_hi != now >> 32 && !mark_time(writer))
			return false;
		slot = take(writer, words);
		if (!slot)
			return false;
		/*
		 * A new sub-buffer, or a handler's TIME record, may have moved the high half meanwhile: the slot may
		 * lie before or after that, so it stays empty.
		 */
		if (writer->time_hi == now >> 32)
			break;
	}
	if (words == 2)
		ring_put2(slot, calltap_record_make(kind, id, (uint32_t)now), second);
	else
		ring_put(slot, calltap_record_make(kind, id, (uint32_t)now));
	return true;
}
