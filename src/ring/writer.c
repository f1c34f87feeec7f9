/*
 * Opening sub-buffers: the slow path of every record (writer.h).
 *
 * The probe room calls this with signals blocked, so that one thread opens one sub-buffer at a time.  Context: probe,
 * slow path; system calls: futex and clock_gettime while a writer waits, prctl for a thread's name, getcpu
 * where libc has no rseq.
 */
#include <base/sys.h>
#include <ring/writer.h>
#include <offsets.h>

_Static_assert(offsetof(struct ring_writer, cursor) == RW_CURSOR, "entry.S");
_Static_assert(offsetof(struct ring_writer, base) == RW_BASE, "entry.S");
_Static_assert(offsetof(struct ring_writer, span) == RW_SPAN, "entry.S");
_Static_assert(offsetof(struct ring_writer, span2) == RW_SPAN2, "entry.S");
_Static_assert(offsetof(struct ring_writer, time_hi) == RW_TIME_HI, "entry.S");
_Static_assert(offsetof(struct ring_writer, ring) == RW_RING, "handlers.S");
_Static_assert(sizeof(struct ring_writer) == 64, "one cache line a thread");

#define WAIT_STEP_NS 10000000u /* 10 ms: how often a waiting writer looks whether the reader lives */
#define WAITS_MAX    10u

static uint64_t room_left(const struct calltap_ring *ring)
{
	/* Acquire: pairs with the drainer's store; the drainer is done with the sub-buffers that it has released. */
	uint64_t released = __atomic_load_n(&ring->released, __ATOMIC_ACQUIRE);

	return ring->mode == CALLTAP_MODE_OVERWRITE ? 1 : ring->sub_count - (ring->opened - released);
}

bool ring_has_room(const struct ring_writer *writer)
{
	return writer->ring && (int64_t)room_left(writer->ring) > 0;
}

void ring_bell(struct calltap_board *board)
{
	__atomic_add_fetch(&board->doorbell, 1, __ATOMIC_SEQ_CST);
	/* Sequentially consistent with the drainer's store of reader_asleep and its re-check of the doorbell. */
	if (__atomic_exchange_n(&board->reader_asleep, 0, __ATOMIC_SEQ_CST))
		sys_futex_wake(&board->doorbell);
}

/* Has the reader taken a sub-buffer of any ring?  Those of hundreds of threads are taken in turns. */
static bool makes_progress(const struct ring_shared *shared, uint64_t *heartbeat)
{
	uint64_t now = shared->board ? __atomic_load_n(&shared->board->heartbeat, __ATOMIC_RELAXED) : 0;
	bool has = now != *heartbeat;

	*heartbeat = now;
	return has;
}

/*
 * Wait until the reader has released a sub-buffer of the ring; false when it makes no progress for wait_max_ms, or has
 * not come here for WAITS_MAX times as long.
 */
static bool wait_for_room(struct ring_writer *writer, const struct ring_shared *shared)
{
	struct calltap_ring *ring = writer->ring;
	const uint64_t start = arch_clock(), begin_ns = sys_monotonic_ns(), max_ns = shared->wait_max_ms * 1000000ull;
	uint64_t heartbeat = 0, seen_ns = begin_ns, now_ns;
	bool room;

	(void)makes_progress(shared, &heartbeat);

	for (;;) {
		uint32_t wake = __atomic_load_n(&ring->wake, __ATOMIC_SEQ_CST);

		__atomic_store_n(&ring->waiting, 1, __ATOMIC_SEQ_CST);
		room = (int64_t)room_left(ring) > 0;
		now_ns = sys_monotonic_ns();
		if (makes_progress(shared, &heartbeat))
			seen_ns = now_ns;
		if (room || __atomic_load_n(&shared->reader_gone, __ATOMIC_RELAXED) || now_ns - seen_ns > max_ns ||
		    now_ns - begin_ns > WAITS_MAX * max_ns)
			break;
		ring_bell(shared->board);
		sys_futex_wait(&ring->wake, wake, WAIT_STEP_NS);
	}
	__atomic_store_n(&ring->waiting, 0, __ATOMIC_RELAXED);
	writer->waited += arch_clock() - start;
	ring->wait_ticks += arch_clock() - start;
	return room;
}

/* Write LOST and WAIT as the first records of the new sub-buffer: a gap lies in the trace where it happened. */
static void note_gaps(struct ring_writer *writer, uint32_t time_low)
{
	uint64_t *slot;

	if (writer->lost) {
		slot = ring_take(writer, 2);
		if (slot)
			ring_put2(slot, calltap_record_make(CALLTAP_REC_LOST, 0, time_low), writer->lost);
		writer->lost = 0;
	}
	if (writer->waited) {
		slot = ring_take(writer, 2);
		if (slot)
			ring_put2(slot, calltap_record_make(CALLTAP_REC_WAIT, 0, time_low), writer->waited);
		writer->waited = 0;
	}
}

/*
 * The thread's CPU, + 1; 0 = not known.  Where libc registers no rseq the kernel is asked: one system call more, beside
 * those that block signals around each opening.
 */
static uint32_t cpu_now(const struct ring_shared *shared)
{
	uint32_t noted = ring_cpu_noted(shared), cpu = 0;

	/*
	 * Sequentially consistent, with the store in sandbox.c: this thread, which counts as one that makes calls
	 * (probe_calls_begin()), sees it, or the storing thread waits for this one.
	 */
	if (noted || shared->quiet || __atomic_load_n(&shared->frugal, __ATOMIC_SEQ_CST) ||
	    SYS(getcpu, &cpu, NULL, NULL, 0, 0, 0))
		return noted;
	return cpu < CALLTAP_RECORD_ID_MAX ? cpu + 1 : 0;
}

/* From here on slots are small numbers and fail the test in ring_take(), whatever base a handler sets meanwhile. */
static void close_sub(struct ring_writer *writer)
{
	writer->span = 0;
	writer->span2 = 0;
	writer->cursor = 0;
}

bool ring_open_next(struct ring_writer *writer, const struct ring_shared *shared)
{
	struct calltap_ring *ring = writer->ring;
	uint64_t number = ring->opened;
	struct calltap_subbuf *sub;
	uint64_t now;

	if (ring->mode > CALLTAP_MODE_OVERWRITE)
		return false; /* the ring's memory is a tracer's own */
	if ((int64_t)room_left(ring) <= 0) {
		close_sub(writer); /* every record comes here until there is room */
		if (ring->mode != CALLTAP_MODE_BLOCK || shared->quiet ||
		    __atomic_load_n(&shared->reader_gone, __ATOMIC_RELAXED) || writer->lost ||
		    !wait_for_room(writer, shared))
			return false;
	}
	sub = (void *)((char *)ring + CALLTAP_PAGE + number % ring->sub_count * ring->sub_size);
	/*
	 * A: invalid for readers; B: records cleared; C: head written; D: published.  On the first lap the memory is
	 * empty.
	 */
	__atomic_store_n(&sub->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (number >= ring->sub_count)
		arch_clear_words((uint64_t *)(sub + 1), (ring->sub_size - sizeof(*sub)) / sizeof(uint64_t));
	now = arch_clock();
	sub->ticks = now;
	sub->cpu = sub->cpu_told = cpu_now(shared);
	sub->owner = ring->owner;
	sub->tid = ring->tid;
	__builtin_memcpy(sub->comm, ring->comm, sizeof(sub->comm));
	sub->lost_before = ring->lost_before;
	sub->wait_before = ring->wait_before;
	__atomic_store_n(&sub->number, number + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->opened, number + 1, __ATOMIC_RELEASE); /* pairs with the drainer's load */
	writer->time_hi = (uint32_t)(now >> 32);
	writer->cursor = (uint64_t)(sub + 1);
	writer->base = (uint64_t)(sub + 1);
	writer->span = ring->sub_size - sizeof(*sub);
	writer->span2 = writer->span - sizeof(uint64_t);
	note_gaps(writer, (uint32_t)now);
	if (ring->mode != CALLTAP_MODE_OVERWRITE && !shared->quiet && number - ring->released >= ring->sub_count / 4u &&
	    __atomic_load_n(&shared->board->reader_asleep, __ATOMIC_RELAXED))
		ring_bell(shared->board);
	return true;
}

static void read_name(struct calltap_ring *ring)
{
	uint64_t comm[2] = {0, 0};

	SYS(prctl, 16 /* PR_GET_NAME */, comm, 0, 0, 0, 0);
	__builtin_memcpy(ring->comm, comm, sizeof(ring->comm));
}

void ring_rename(struct ring_writer *writer)
{
	struct calltap_subbuf *sub = (struct calltap_subbuf *)writer->base - 1;

	read_name(writer->ring);
	if (writer->span)
		__builtin_memcpy(sub->comm, writer->ring->comm, sizeof(sub->comm));
}

/* The totals run on over a ring's owners: these are the last one's. */
static void begin_account(struct calltap_ring *ring)
{
	ring->claim_ticks = arch_clock();
	__atomic_store_n(&ring->lost_before, ring->lost, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->wait_before, ring->wait_ticks, __ATOMIC_RELAXED);
}

void ring_move(struct ring_writer *writer, struct calltap_ring *ring)
{
	const struct calltap_ring *old = writer->ring;

	__builtin_memcpy(ring->comm, old->comm, sizeof(ring->comm));
	begin_account(ring);
	ring->tid = writer->tid;
	/* Release: pairs with the drainer's look at whose account it is. */
	__atomic_store_n(&ring->owner, old->owner | CALLTAP_OWNER_MOVED, __ATOMIC_RELEASE);
	close_sub(writer);
	writer->ring = ring;
}

void ring_attach(struct ring_writer *writer, struct calltap_ring *ring, int tid, bool named)
{
	if (named)
		read_name(ring);
	else
		__builtin_memset(ring->comm, 0, sizeof(ring->comm)); /* quiet: the tool asks the kernel */
	begin_account(ring);
	ring->tid = (uint32_t)tid;
	ring->ending = 0;
	__atomic_add_fetch(&ring->owner, 1, __ATOMIC_RELEASE); /* as in ring_move() */
	close_sub(writer);
	writer->lost = 0;
	writer->waited = 0;
	writer->tid = (uint32_t)tid;
	writer->ring = ring;
}
