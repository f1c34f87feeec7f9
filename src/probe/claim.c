/*
 * How a thread comes to a ring of its own: it claims a ring that is free, or that a thread has left, asks the tool for
 * more, and gives one ring back for another.
 *
 * Called at a thread's first record, and by record.c.  Context: probe, slow path: raw system calls, bounded loops, own
 * memory.
 */
#include <base/sys.h>
#include <probe/profile.h>
#include <probe/thread.h>

/*
 * Block mode: how long a new thread waits for a ring at a time, which doubles so often; three seconds in all.  An arena
 * that comes wakes it.  Hundreds of threads may wait, and must leave the tool time to make the arena.
 */
#define CLAIM_WAIT_NS 2000000u
#define CLAIM_DOUBLED 6
#define CLAIM_WAITS   29
#define CLAIM_LOOKS   8	    /* waits between looks for rings of threads that have ended: a system call for each ring */
#define CLAIM_RETRY   1024u /* calls between tries of a thread that got none */
#define CLAIM_ARENAS  16    /* attach_try: above these bits, how many arenas there were then */

/*
 * The writer of a ring.  The thread that a fork leaves in the child points to a writer of its parent's until its next
 * record, and an interrupted thread may point to a writer of an instance that has ended.  So writers below `base` are
 * not handed out before it is known that no thread points to them: two threads would share one.
 */
static struct ring_writer *writer_of(unsigned set, uint32_t ring)
{
	uint32_t at = probe_context.writers[set].base + (probe_set_at(set)->traded[ring] ^ ring);
	uint32_t *used_word = &probe_context.writers[set].used, used = __atomic_load_n(used_word, __ATOMIC_RELAXED);

	while (used <= at &&
	       !__atomic_compare_exchange_n(used_word, &used, at + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return &probe_set_at(set)->writers[at % PROBE_RINGS];
}

/* A ring by its place in all arenas. */
static struct calltap_ring *ring_of(const struct probe_set *set, uint32_t place)
{
	return ring_at(set->arenas[place / CALLTAP_ARENA_RINGS], place % CALLTAP_ARENA_RINGS);
}

static uint32_t *state_of(const struct probe_set *set, uint32_t place)
{
	return &set->arenas[place / CALLTAP_ARENA_RINGS]->state[place % CALLTAP_ARENA_RINGS];
}

static bool claim(const struct probe_set *set, uint32_t place, uint32_t from, int tid)
{
	/* Acquire: the last owner's counters, and the tool's release of the ring. */
	if (!__atomic_compare_exchange_n(state_of(set, place), &from, CALLTAP_RING_CLAIMED + (uint32_t)tid, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	__atomic_add_fetch(&set->arenas[place / CALLTAP_ARENA_RINGS]->claimed, 1, __ATOMIC_RELAXED);
	return true;
}

static bool has_ended(uint32_t state, int tid)
{
	uint32_t owner = state - CALLTAP_RING_CLAIMED;

	/* A thread that had this thread's id before, or none any more (-ESRCH). */
	return state < CALLTAP_RING_OUT &&
	       (owner == (uint32_t)tid || SYS(tgkill, probe_context.wiped->pid, owner, 0, 0, 0, 0) == -3);
}

/* Where nobody waits for room, a ring without any would lose all. */
static bool is_worth_it(const struct calltap_ring *ring)
{
	return ring->mode != CALLTAP_MODE_DROP ||
	       ring->opened - __atomic_load_n(&ring->released, __ATOMIC_RELAXED) < ring->sub_count;
}

/*
 * Claim a ring that is free or, with take_over, one whose thread has ended. retired: among the retired rings, else
 * among the others.
 */
static bool claim_any(struct probe_set *set, int tid, bool take_over, bool retired, uint32_t *place)
{
	/* Pairs with agent_arena_add(). */
	uint32_t places = __atomic_load_n(&set->arena_count, __ATOMIC_ACQUIRE) * CALLTAP_ARENA_RINGS;
	/*
	 * Threads take over the rings of ended threads in turn: the ring that was taken over last has the most records
	 * that the tool has not read yet.
	 */
	uint32_t first = take_over ? __atomic_load_n(&set->taken_over, __ATOMIC_RELAXED) : 0;

	for (uint32_t n = 0; n < places; n++) {
		uint32_t at = (first + n) % places, state;
		struct calltap_arena *arena = set->arenas[at / CALLTAP_ARENA_RINGS];

		if (at % CALLTAP_ARENA_RINGS >= arena->ring_count)
			continue;
		state = __atomic_load_n(state_of(set, at), __ATOMIC_RELAXED);
		if (!__atomic_load_n(&ring_of(set, at)->retired, __ATOMIC_RELAXED) == retired)
			continue;
		if (state != CALLTAP_RING_FREE &&
		    !(take_over && is_worth_it(ring_of(set, at)) && has_ended(state, tid)))
			continue;
		if (!claim(set, at, state, tid))
			continue;
		if (take_over)
			__atomic_store_n(&set->taken_over, at + 1, __ATOMIC_RELAXED);
		*place = at;
		return true;
	}
	return false;
}

/* Where the thread keeps its writer of a set; try_place(): until when it does not ask for one. */
static struct ring_writer **writer_place(struct probe_thread *thread, unsigned set)
{
	return set ? &thread->further[set - 1].writer : &thread->writer;
}

static uint32_t *try_place(struct probe_thread *thread, unsigned set)
{
	return set ? &thread->further[set - 1].attach_try : &thread->attach_try;
}

/* A thread that got no ring does not look for one at each call, but does at once when another arena has come. */
static void put_off(uint32_t *attach_try, uint32_t arenas)
{
	*attach_try = arenas << CLAIM_ARENAS | CLAIM_RETRY;
}

static bool is_put_off(uint32_t *attach_try, const struct probe_set *set)
{
	uint32_t left = *attach_try & ((1u << CLAIM_ARENAS) - 1);

	if (!left || *attach_try >> CLAIM_ARENAS != __atomic_load_n(&set->arena_count, __ATOMIC_RELAXED))
		return false;
	--*attach_try;
	return true;
}

/* True if half of the last arena is taken: the tool is to send more before the next thread finds none. */
static bool is_scarce(const struct probe_set *set, uint32_t place)
{
	uint32_t last = place / CALLTAP_ARENA_RINGS;

	return last + 1 == set->arena_count && place % CALLTAP_ARENA_RINGS >= set->arenas[last]->ring_count / 2;
}

/* The thread gets the ring, which the caller has claimed. */
static void settle_in(struct probe_thread *thread, unsigned index, uint32_t place, int tid)
{
	struct probe_set *set = probe_set_at(index);
	uint32_t owner = __atomic_add_fetch(&set->owners, 1, __ATOMIC_RELAXED) & ~CALLTAP_OWNER_MOVED;
	struct ring_writer *writer = writer_of(index, place);

	*writer_place(thread, index) = writer;
	ring_of(set, place)->owner = owner - 1; /* ring_attach() counts it up */
	/* Before the thread has a ring and can record.  Release: pairs with the reader in agent/threads.c. */
	if (!index) {
		struct probe_thread **place_of = &probe_context.wiped->threads[writer - set->writers];
		struct probe_thread *before = __atomic_exchange_n(place_of, thread, __ATOMIC_ACQ_REL);

		if (before && before != thread)
			arch_block_retire(before, writer);
	}
	ring_attach(writer, ring_of(set, place), tid, !probe_context.shared.quiet);
	if (!index)
		thread->continues = thread->stack != &probe_stack_none;
	if (!index && probe_context.profile)
		probe_table_attach(thread, set->arenas[place / CALLTAP_ARENA_RINGS]);
}

/* A retired ring is the last choice: the tool has sent others in its place. */
static bool attach_any(struct probe_thread *thread, unsigned index, int tid, bool take_over)
{
	struct probe_set *set = probe_set_at(index);
	uint32_t place;

	if (!claim_any(set, tid, false, false, &place) && !(take_over && claim_any(set, tid, true, false, &place)) &&
	    !claim_any(set, tid, false, true, &place))
		return false;
	settle_in(thread, index, place, tid);
	if (is_scarce(set, place) && !probe_context.shared.quiet)
		ring_bell(probe_context.shared.board);
	return true;
}

/* False: the ring is in no arena that the process knows. */
static bool find_place(const struct probe_set *set, const struct calltap_ring *ring, uint32_t *place)
{
	for (uint32_t i = 0; i < set->arena_count; i++)
		for (uint32_t k = 0; k < set->arenas[i]->ring_count && k < CALLTAP_ARENA_RINGS; k++)
			if (ring_at(set->arenas[i], k) == ring) {
				*place = i * CALLTAP_ARENA_RINGS + k;
				return true;
			}
	return false;
}

static void ask_for_rings(const struct probe_set *set)
{
	__atomic_add_fetch(&set->arenas[0]->starved, 1, __ATOMIC_RELAXED);
	ring_bell(probe_context.shared.board);
}

/*
 * The thread keeps its writer, which interrupted code may be working on; so the two rings trade their writers.  The
 * other ring must have sub-buffers of the same size, for that code may have looked at `base` and not yet at `span`.
 */
void probe_move_on(unsigned index, struct ring_writer *writer)
{
	struct probe_set *set = probe_set_at(index);
	struct calltap_ring *old = writer->ring;
	uint32_t from, to, *traded = set->traded, own;

	if (!find_place(set, old, &from))
		return;
	if (!claim_any(set, (int)writer->tid, false, false, &to)) {
		ask_for_rings(set);
		return;
	}
	if (ring_of(set, to)->sub_size != old->sub_size) {
		__atomic_store_n(state_of(set, to), CALLTAP_RING_FREE, __ATOMIC_RELEASE);
		return;
	}
	own = traded[from] ^ from;
	traded[from] = traded[to] ^ to ^ from;
	traded[to] = own ^ to;
	ring_move(writer, ring_of(set, to));
	/* Release: all of the thread's records in it; pairs with the drainer's look at a ring that was left. */
	__atomic_store_n(state_of(set, from), CALLTAP_RING_LEFT, __ATOMIC_RELEASE);
}

static bool waits_for_ring(const struct calltap_ring *ring)
{
	return ring->mode == CALLTAP_MODE_BLOCK || ring->mode == CALLTAP_MODE_PROFILE;
}

void probe_note(uint32_t bit)
{
	struct calltap_arena *first = probe_context.wiped ? probe_context.wiped->sets[0].arenas[0] : NULL;

	if (first)
		__atomic_fetch_or(&first->notes, bit, __ATOMIC_RELAXED);
}

/* Signals are blocked. */
static bool attach_blocked(struct probe_thread *thread, unsigned index)
{
	struct probe_set *set = probe_set_at(index);
	struct calltap_arena *arena = set->arenas[0];
	/* Before the rings are looked at: an arena that comes meanwhile is new. */
	uint32_t arenas = __atomic_load_n(&set->arena_count, __ATOMIC_ACQUIRE);
	int tid = sys_gettid(), waits = 0;

	/* vfork's child runs on its parent's thread block: a ring it took would be claimed under an id that ends. */
	if ((uint32_t)sys_getpid() != probe_context.wiped->pid) {
		probe_note(CALLTAP_NOTE_VFORK);
		return false;
	}
	if (tid <= 0 || !arch_block_has_id(thread, tid))
		return false;
	if (attach_any(thread, index, tid, true))
		return true;
	/* Let the tool know; it adds an arena.  In block mode nothing is to be lost, so wait a little. */
	while (arena && waits++ < CLAIM_WAITS && !probe_context.shared.reader_gone) {
		ask_for_rings(set);
		/* A vain wait is not repeated until there is a new arena: the tool may be stopped. */
		if (!waits_for_ring(ring_at(arena, 0)) || set->claim_vain == set->arena_count)
			break;
		sys_futex_wait(&set->arena_count, set->arena_count,
			       CLAIM_WAIT_NS << (waits < CLAIM_DOUBLED ? waits : CLAIM_DOUBLED));
		if (attach_any(thread, index, tid, waits % CLAIM_LOOKS == 0))
			return true;
	}
	if (waits > CLAIM_WAITS)
		set->claim_vain = set->arena_count;
	put_off(try_place(thread, index), arenas);
	return false;
}

/* In a sandbox: take a ring that is free, under the id that libc has noted, or none. */
static bool attach_quietly(struct probe_thread *thread, unsigned index)
{
	struct probe_wiped *wiped = probe_context.wiped;
	uint32_t arenas = __atomic_load_n(&probe_set_at(index)->arena_count, __ATOMIC_ACQUIRE);
	const char *pointer = __builtin_thread_pointer();

	if (!wiped->alive) /* a forked child, which cannot call the tool */
		probe_context.enabled = 0;
	else if (probe_context.enabled && probe_context.tid_offset &&
		 attach_any(thread, index, *(const int *)(pointer + probe_context.tid_offset), false))
		return true;
	put_off(try_place(thread, index), arenas);
	return false;
}

bool probe_thread_attach(struct probe_thread *thread)
{
	struct probe_wiped *wiped = probe_context.wiped;
	uint64_t signals;
	bool done;

	if (thread->writer->ring && wiped->alive)
		return true;
	if (is_put_off(&thread->attach_try, &wiped->sets[0]))
		return false;
	if (!probe_calls_begin(&signals))
		return attach_quietly(thread, 0);
	if (!wiped->alive)
		probe_context.on_new_process();
	done = wiped->alive && probe_context.enabled && (thread->writer->ring || attach_blocked(thread, 0));
	probe_calls_end(&signals);
	return done;
}

/* Reset what the thread holds of an instance that has ended, for the set's next one. */
static void leave_ended(struct probe_share *share, uint32_t on)
{
	if (share->generation == on)
		return;
	share->generation = on;
	share->writer = &probe_writer_none;
	share->attach_try = 0;
	share->depth = 0;
	share->gate = share->tree = 0;
	share->tick = 0;
	share->quiet_root = false;
}

void probe_count_untraced(unsigned set)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct calltap_arena *arena;

	if (!probe_context.enabled || !wiped->alive || !wiped->sets[0].arenas[0])
		return;
	/* Not in an arena of the further set: nobody waits for a thread without rings before that arena goes. */
	arena = wiped->sets[0].arenas[0];
	__atomic_add_fetch(set ? &arena->untraced_further[set - 1] : &arena->untraced, 1, __ATOMIC_RELAXED);
}

bool probe_set_attach(struct probe_thread *thread, unsigned set)
{
	struct probe_share *share = &thread->further[set - 1];
	uint32_t on = __atomic_load_n(&probe_set_at(set)->on, __ATOMIC_ACQUIRE); /* pairs with agent_instance_take() */
	uint64_t signals;
	bool done;

	if (!on)
		return false;
	if (share->generation == on && share->writer->ring)
		return true;
	if (share->generation == on && is_put_off(&share->attach_try, probe_set_at(set)))
		return false;
	if (!probe_calls_begin(&signals)) {
		leave_ended(share, on);
		return attach_quietly(thread, set);
	}
	leave_ended(share, on);
	done = share->writer->ring || attach_blocked(thread, set);
	probe_calls_end(&signals);
	/* The instance may have ended meanwhile, and the ring found be that of another one. */
	return done && __atomic_load_n(&probe_set_at(set)->on, __ATOMIC_ACQUIRE) == on;
}
