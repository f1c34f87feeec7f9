/*
 * The drainer: from rings to the file, while the targets run.
 *
 * One thread.  Sub-buffers that a writer has left behind go to the file and
 * back to the writer (block and drop mode); what is in a ring when its thread
 * or process has ended goes last.  In overwrite mode nothing is touched before
 * the process has ended (snapshot.c), and looked at for --time adaptive alone (peek.c).  Everything in a ring is the
 * target's to scribble on: counters are read once and bounded, records are decoded by the encoder, which takes
 * anything.  Context: host.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/brief/brief.h>
#include <host/hook/watch.h>
#include <host/proc.h>
#include <host/session/session.h>
#include <host/thread.h>

#include "sub.h"

#define IDLE_NS	  10000000 /* longest sleep between rounds: 10 ms */
#define REAP_NS	  50000000 /* how often ended threads are looked for */
#define FOLLOW_NS 50000000 /* how often open sub-buffers are read, when somebody follows */
#define SHUT_IN	  (CALLTAP_NOTE_QUIET | CALLTAP_NOTE_NO_CHILDREN)
#define HOPS_MAX  256u /* rings that a thread has left between two looks; more are nonsense */

struct drainer {
	struct instance *instance;
	uint64_t next_reap_ns, next_follow_ns;
	bool follow;	/* this round reads open sub-buffers, too */
	bool busy;	/* this round moved something */
	bool finishing; /* rings that a thread had before the one that is being drained */
	bool taking;	/* a ring is being taken back: the server must not give it out before that is done */
};

/*
 * The server gets its turn while a sub-buffer is encoded, which is nearly all
 * the drainer's work: the rings of hundreds of busy threads fill as fast as
 * they are emptied, and who asks must not wait for a round.  Processes,
 * arenas, readers and the encoder stay where they are until let_back();
 * instance->threads may move, and the process may have ended.
 */
static void let_server(const struct drainer *drainer)
{
	if (!drainer->taking)
		session_unlock(drainer->instance->session);
}

static void let_back(const struct drainer *drainer)
{
	if (!drainer->taking)
		session_lock(drainer->instance->session);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void finish_before(struct drainer *drainer, struct share *share, const struct calltap_ring *ring,
			  uint32_t owner);

static void thread_ended(struct target_thread *thread)
{
	thread->row.ended = 1;
	thread->dirty = true;
}

/*
 * A thread that ended while it was losing records, or right after a wait, could not write that down any more; the
 * ring's totals have it: lost and waited, up to the next owner's claim.
 */
static void count_rest(struct instance *instance, struct ring_reader *reader, uint64_t lost, uint64_t waited)
{
	const uint64_t told = reader->lost_told + reader->lost_ahead;
	struct target_thread *thread;

	lost -= told;
	waited -= reader->wait_told;
	if (!(lost | waited) || (int64_t)(lost | waited) < 0)
		return; /* nothing left to tell, or scribbled on */
	instance->result->lost += lost;
	reader->lost_told = told + lost;
	reader->lost_ahead = 0;
	reader->wait_told += waited;
	if (reader->thread == UINT32_MAX)
		return; /* of owners that have not opened one sub-buffer */
	thread = &instance->threads[reader->thread];
	thread->row.lost += lost;
	thread->row.wait_ticks += waited;
	thread->dirty = true;
}

/* The last owner's rest, of a ring that nobody writes, or that another thread has claimed, and not opened yet. */
static void count_last(struct instance *instance, struct ring_reader *reader, const struct calltap_ring *ring)
{
	bool another = __atomic_load_n(&ring->owner, __ATOMIC_ACQUIRE) != reader->owner;

	count_rest(instance, reader, __atomic_load_n(another ? &ring->lost_before : &ring->lost, __ATOMIC_RELAXED),
		   __atomic_load_n(another ? &ring->wait_before : &ring->wait_ticks, __ATOMIC_RELAXED));
}

/* The thread that the sub-buffer is of; its owner differs from the last one's when the ring changed hands. */
static int thread_of(struct drainer *drainer, struct share *share, struct ring_reader *reader,
		     const struct calltap_ring *ring, const struct calltap_subbuf *head, struct target_thread **thread)
{
	struct instance *instance = drainer->instance;
	uint32_t index = UINT32_MAX;
	int ret = 0;

	if (reader->thread == UINT32_MAX || reader->owner != head->owner) {
		count_rest(instance, reader, head->lost_before, head->wait_before);
		if (head->owner & CALLTAP_OWNER_MOVED) {
			finish_before(drainer, share, ring, head->owner);
			index = resize_find_thread(instance, share->target, head->owner);
		}
		if (index == UINT32_MAX)
			ret = threads_add(instance, share->target, head->tid, head->ticks, &index);
		if (ret)
			return ret;
		/* A thread takes a ring over only when the kernel says that the ring's owner has ended. */
		if (reader->thread != UINT32_MAX && !(head->owner & CALLTAP_OWNER_MOVED))
			thread_ended(&instance->threads[reader->thread]);
		reader->thread = index;
		instance->threads[index].owner = head->owner & ~CALLTAP_OWNER_MOVED;
	}
	reader->owner = head->owner;
	*thread = &instance->threads[reader->thread];
	threads_name(instance->session, share->target, *thread, head->comm);
	return 0;
}

/* Where in the sub-buffer its records go on that are not in the file, and a time to encode them with. */
static uint32_t rest_of(const struct ring_reader *reader, const struct calltap_subbuf *head, uint64_t number,
			uint64_t *ticks)
{
	bool begun = reader->part_words && reader->part_number == number;

	*ticks = begun ? reader->part_ticks : head->ticks;
	return begun ? reader->part_words : 0;
}

/* Write a sub-buffer to the file; open: its writer goes on in it, and what is written so far is taken. */
static int drain_sub(struct drainer *drainer, struct share *share, struct target_arena *arena, uint32_t index,
		     uint64_t number, bool open)
{
	struct instance *instance = drainer->instance;
	struct ring_reader *reader = &arena->rings[index];
	struct calltap_ring *ring = ring_of(arena, index);
	const struct calltap_subbuf *sub = sub_of(arena, index, number);
	const uint64_t *words = (const uint64_t *)(sub + 1);
	uint32_t from, end = (uint32_t)((arena->sub_size - sizeof(*sub)) / sizeof(*words));
	struct encode_result encoded;
	struct calltap_subbuf head;
	struct target_thread *thread;
	const void *payload;
	uint64_t ticks, sequence, ahead;
	uint32_t row;
	size_t size;
	int ret;

	sub_copy_head(&head, sub);
	if (head.number != number + 1 || !sub_is_whole(sub, number)) {
		instance->overwritten++; /* or scribbled on */
		return 0;
	}
	from = rest_of(reader, &head, number, &ticks);
	if (open)
		end = sub_whole_records(words, from, end);
	if (from == end)
		return 0;
	ret = thread_of(drainer, share, reader, ring, &head, &thread);
	if (ret)
		return ret;
	row = thread->row.thread;
	sequence = thread->next_number;
	let_server(drainer);
	ret = record_encode(instance->encoder, row, sequence, ticks, words + from, end - from, &payload, &size,
			    &encoded);
	if (instance->brief && !open && !from)
		peek_drained(instance->brief, reader, words, end, ticks, clock_now_ns());
	let_back(drainer);
	thread = &instance->threads[reader->thread];
	if (open) {
		(void)record_skip_older(words + from, end - from, UINT64_MAX, &ticks);
		reader->part_number = number;
		reader->part_words = end;
		reader->part_ticks = ticks;
	}
	if (ret || !size)
		return ret;
	if (!sub_is_whole(sub, number)) {
		instance->overwritten++;
		return 0;
	}
	if (thread->dirty)
		ret = threads_write(instance, thread);
	if (!ret)
		ret = trace_writer_chunk(instance->writer, CALLTAP_CHUNK_DATA, payload, size);
	if (!ret)
		ret = trace_writer_cpus(instance->writer, row, from ? NULL : &head, &encoded);
	thread->next_number++;
	reader->lost_told += encoded.lost;
	ahead = encoded.lost < reader->lost_ahead ? encoded.lost : reader->lost_ahead;
	reader->lost_ahead -= ahead;
	thread->row.lost += encoded.lost - ahead;
	reader->wait_told += encoded.wait_ticks;
	thread->row.wait_ticks += encoded.wait_ticks;
	thread->row.end_ticks = encoded.last_ticks;
	instance->holes += encoded.holes;
	instance->result->records += encoded.records;
	instance->result->lost += encoded.lost - ahead;
	drainer->busy = true;
	return ret;
}

static void release_ring(struct calltap_board *board, struct calltap_ring *ring, uint64_t number)
{
	__atomic_add_fetch(&board->heartbeat, 1, __ATOMIC_RELAXED);
	/* Release: what we read of the sub-buffer comes before; pairs with room_left() in the writer. */
	__atomic_store_n(&ring->released, number, __ATOMIC_RELEASE);
	__atomic_add_fetch(&ring->wake, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ring->waiting, __ATOMIC_SEQ_CST))
		futex_wake(&ring->wake);
}

/*
 * A thread tells what it has lost in front of its next record, and that may be much later.  Who follows reads it in the
 * thread's row before.
 */
static void count_ahead(struct instance *instance, struct ring_reader *reader, const struct calltap_ring *ring)
{
	bool another = __atomic_load_n(&ring->owner, __ATOMIC_ACQUIRE) != reader->owner;
	uint64_t untold =
		__atomic_load_n(another ? &ring->lost_before : &ring->lost, __ATOMIC_RELAXED) - reader->lost_told;
	struct target_thread *thread;

	if (reader->thread == UINT32_MAX || untold <= reader->lost_ahead || (int64_t)untold < 0)
		return; /* nothing new, or scribbled on */
	thread = &instance->threads[reader->thread];
	thread->row.lost += untold - reader->lost_ahead;
	instance->result->lost += untold - reader->lost_ahead;
	reader->lost_ahead = untold;
	(void)!threads_write(instance, thread); /* an error of the file, told at the end */
}

/*
 * The sub-buffers below end, of the `opened` ones.  Errors of the file are kept
 * by the writer and told at the end: the target's rings are emptied all the
 * same, so that it never waits for a full disk.
 */
static void drain_below(struct drainer *drainer, struct share *share, struct target_arena *arena, uint32_t index,
			uint64_t opened, uint64_t end)
{
	struct instance *instance = drainer->instance;
	struct ring_reader *reader = &arena->rings[index];

	if (opened - reader->drained > arena->sub_count) { /* overwritten; or scribbled on */
		instance->overwritten += opened - arena->sub_count - reader->drained;
		reader->drained = opened - arena->sub_count;
	}
	while (reader->drained < end) {
		if (drain_sub(drainer, share, arena, index, reader->drained, false))
			drainer->busy = true;
		reader->drained++;
		release_ring(instance->session->board, ring_of(arena, index), reader->drained);
	}
}

static uint64_t opened_of(const struct target_arena *arena, uint32_t index)
{
	return __atomic_load_n(&ring_of(arena, index)->opened, __ATOMIC_ACQUIRE); /* pairs with D in ring_open_next() */
}

static uint32_t state_of(const struct target_arena *arena, uint32_t index)
{
	return __atomic_load_n(&arena->arena->state[index], __ATOMIC_ACQUIRE); /* pairs with move_on() in the target */
}

/* A ring whose thread has gone on in another one: all of it; nothing of what was lost or waited is untold there. */
static void take_left(struct drainer *drainer, struct share *share, struct target_arena *arena, uint32_t index)
{
	struct ring_reader *reader = &arena->rings[index];
	const struct calltap_ring *ring = ring_of(arena, index);
	uint64_t opened = opened_of(arena, index);
	bool within = drainer->taking;

	drainer->taking = true;
	__atomic_store_n(&arena->arena->state[index], CALLTAP_RING_OUT, __ATOMIC_RELEASE); /* nobody claims it */
	if (opened > reader->drained)
		drain_below(drainer, share, arena, index, opened, opened);
	reader->thread = UINT32_MAX;
	reader->part_words = 0;
	reader->lost_told = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED);
	reader->lost_ahead = 0;
	reader->wait_told = __atomic_load_n(&ring->wait_ticks, __ATOMIC_RELAXED);
	resize_put_back(arena, index);
	drainer->taking = within;
	drainer->busy = true;
}

/* The first of the rings that a thread has left, if it is older than `before`; NULL = there is none. */
static struct target_arena *oldest_left(struct share *share, uint32_t owner, uint64_t before, uint32_t *index)
{
	struct target_arena *found = NULL;

	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++) {
			const struct calltap_ring *ring = ring_of(&share->arenas[i], k);
			uint64_t ticks = __atomic_load_n(&ring->claim_ticks, __ATOMIC_RELAXED);

			if (state_of(&share->arenas[i], k) != CALLTAP_RING_LEFT || ticks >= before ||
			    (__atomic_load_n(&ring->owner, __ATOMIC_RELAXED) | CALLTAP_OWNER_MOVED) !=
				    (owner | CALLTAP_OWNER_MOVED))
				continue;
			before = ticks;
			*index = k;
			found = &share->arenas[i];
		}
	return found;
}

/*
 * What a thread wrote before it came to this ring goes first.  It left those
 * rings before it opened a sub-buffer here, and may have left this one since.
 * A ring that is another's now was its last.
 */
static void finish_before(struct drainer *drainer, struct share *share, const struct calltap_ring *ring, uint32_t owner)
{
	bool still = __atomic_load_n(&ring->owner, __ATOMIC_ACQUIRE) == owner;
	uint64_t before = still ? __atomic_load_n(&ring->claim_ticks, __ATOMIC_RELAXED) : UINT64_MAX;
	struct target_arena *arena;
	uint32_t index;

	if (drainer->finishing || drainer->instance->options->mode > CALLTAP_MODE_DROP)
		return; /* the oldest is being taken: there is none before it */
	drainer->finishing = true;
	for (uint32_t i = 0; i < HOPS_MAX && (arena = oldest_left(share, owner, before, &index)); i++)
		take_left(drainer, share, arena, index);
	drainer->finishing = false;
}

/* Take the sub-buffers that the ring's writer has left behind, while the target lives. */
static void drain_ring(struct drainer *drainer, struct share *share, struct target_arena *arena, uint32_t index)
{
	uint64_t opened;

	if (state_of(arena, index) == CALLTAP_RING_LEFT && drainer->instance->options->mode <= CALLTAP_MODE_DROP) {
		take_left(drainer, share, arena, index);
		return;
	}
	opened = opened_of(arena, index);
	if (opened > arena->rings[index].drained && drainer->instance->options->mode <= CALLTAP_MODE_DROP)
		drain_below(drainer, share, arena, index, opened, opened - 1);
	if (drainer->follow && opened > arena->rings[index].drained &&
	    drain_sub(drainer, share, arena, index, opened - 1, true))
		drainer->busy = true; /* an error of the file, told at the end */
	if (drainer->follow && drainer->instance->options->mode <= CALLTAP_MODE_DROP)
		count_ahead(drainer->instance, &arena->rings[index], ring_of(arena, index));
}

/* All there is of a writer that has ended. */
static void finish_ring(struct drainer *drainer, struct share *share, struct target_arena *arena, uint32_t index,
			uint64_t opened)
{
	struct ring_reader *reader = &arena->rings[index];

	if (opened <= reader->drained || drainer->instance->options->mode > CALLTAP_MODE_DROP)
		return;
	drain_below(drainer, share, arena, index, opened, opened);
	count_last(drainer->instance, reader, ring_of(arena, index));
	/* A process may end before anybody has looked which of its threads had ended. */
	if (reader->thread != UINT32_MAX && __atomic_load_n(&ring_of(arena, index)->ending, __ATOMIC_RELAXED))
		thread_ended(&drainer->instance->threads[reader->thread]);
}

/* Not asked of /proc: a program that shares our mounts may take that away, and then nobody would live. */
static bool thread_lives(const struct target *target, uint32_t tid)
{
	return !syscall(SYS_tgkill, target->pid, tid, 0) || errno == EPERM;
}

/* Rings of threads that have ended: take the rest, end the thread, free the ring. */
static void reap_rings(struct drainer *drainer, struct share *share, struct target_arena *arena)
{
	struct instance *instance = drainer->instance;

	for (uint32_t i = 0; i < arena->ring_count; i++) {
		uint32_t state = state_of(arena, i);
		struct ring_reader *reader = &arena->rings[i];
		uint64_t opened;

		if (!ring_is_claimed(state))
			continue;
		if (thread_lives(share->target, state - CALLTAP_RING_CLAIMED)) {
			if (reader->thread != UINT32_MAX)
				threads_refresh(instance->session, share->target, &instance->threads[reader->thread]);
			continue;
		}
		if (instance->options->mode == CALLTAP_MODE_OVERWRITE) {
			/* Kept as history until a new thread takes the ring over. */
			if (reader->gone != state && !share->target->ended && proc_alive(share->target->pid))
				reader->gone = state;
			continue;
		}
		/* A thread that takes it over changes the state first: what was opened until here is the dead one's. */
		opened = opened_of(arena, i);
		if (__atomic_load_n(&arena->arena->state[i], __ATOMIC_ACQUIRE) != state)
			continue;
		finish_ring(drainer, share, arena, i, opened);
		if (reader->thread != UINT32_MAX)
			thread_ended(&instance->threads[reader->thread]);
		if (__atomic_compare_exchange_n(&arena->arena->state[i], &state, CALLTAP_RING_OUT, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			resize_put_back(arena, i);
		drainer->busy = true;
	}
}

/* A target that does not read what it is sent: the server sees the connection end, and waits for it no more. */
static void give_up(struct session *session, const struct target *target, int error)
{
	if (error != -EPIPE && error != -ECONNRESET)
		session_diagnose(session, "process %d could not be told more: %s; its trace ends there",
				 (int)target->pid, strerror(-error));
	targets_read_on(target);
	shutdown(target->socket, SHUT_RDWR);
}

/* The agent wants to be asked for its objects: it says so in the target's first arena. */
static int answer_request(struct share *share)
{
	const struct calltap_msg rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	struct target *target = share->target;
	uint32_t request = __atomic_load_n(&share->arenas[0].arena->request, __ATOMIC_RELAXED);

	if (share != target->shares[0] || request == share->arenas[0].request_seen || !target->settled)
		return 0;
	share->arenas[0].request_seen = request;
	target->settled = false;
	return channel_send(target->socket, &rescan, sizeof(rescan), NULL, 0);
}

/* Give the target the rings that it asks for, and the tables. */
static void serve_target(struct share *share)
{
	struct target *target = share->target;
	int ret = rings_supply(share);

	if (!ret)
		ret = answer_request(share);
	if (!ret)
		ret = tables_tell(share);
	if (ret)
		give_up(share->instance->session, target, ret);
}

/* The target's first arena goes, and with it the counters of all of its shares and its notes. */
static void keep_notes(struct share *share)
{
	struct target *target = share->target;
	struct record_result *result = share->instance->result;
	uint32_t notes = __atomic_load_n(&share->arenas[0].arena->notes, __ATOMIC_RELAXED);

	for (uint32_t set = 0; set < CALLTAP_INSTANCES; set++)
		if (target->shares[set])
			target->shares[set]->untraced = rings_counted(target, set);
	if (notes & CALLTAP_NOTE_MOVES)
		result->moves++;
	else if (notes & CALLTAP_NOTE_END)
		result->stopped++;
	else if (notes & SHUT_IN)
		result->shut_in++;
	result->vforked += (notes & CALLTAP_NOTE_VFORK) != 0;
	result->copied += (notes & CALLTAP_NOTE_COPIED) != 0;
	result->hidden += (notes & CALLTAP_NOTE_HIDDEN) != 0;
	result->narrow += (notes & CALLTAP_NOTE_NARROW) != 0;
	result->net += (notes & CALLTAP_NOTE_NET) != 0;
	result->spaces += (notes & CALLTAP_NOTE_SPACES) != 0;
}

static void finish_share(struct drainer *drainer, struct share *share)
{
	struct instance *instance = share->instance;
	struct target *target = share->target;

	if (instance->options->mode == CALLTAP_MODE_OVERWRITE && snapshot_of_ended(share))
		instance_diagnose(instance, "not enough memory to save what process %d did last", (int)target->pid);
	if (instance->options->mode == CALLTAP_MODE_PROFILE && profile_keep(share))
		instance_diagnose(instance, "not enough memory to keep the sums of process %d", (int)target->pid);
	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++)
			finish_ring(drainer, share, &share->arenas[i], k, opened_of(&share->arenas[i], k));
	instance->result->untraced += rings_untraced(share);
	if (share == target->shares[0])
		keep_notes(share);
	/* All of them after that: a thread's rings may lie in several. */
	for (uint32_t i = 0; i < share->arena_count; i++)
		arena_destroy(instance, &share->arenas[i], trace_writer_error(instance->writer) != 0);
	share->arena_count = 0;
	eventfd_write(instance->session->endpoint.drained_fd, 1);
	pthread_cond_broadcast(&instance->session->answered);
	for (uint32_t i = 0; i < instance->thread_count; i++)
		if (instance->threads[i].row.process == target->index && instance->threads[i].dirty &&
		    threads_write(instance, &instance->threads[i]))
			break;
	drainer->busy = true;
}

static void drain_share(struct drainer *drainer, struct share *share, bool reap)
{
	struct target *target = share->target;

	if (!share->arena_count)
		return;
	if (share_is_over(share)) {
		finish_share(drainer, share);
		return;
	}
	if (reap)
		resize_collect(share);
	for (uint32_t i = 0; i < share->arena_count; i++) {
		if (reap && !target->other_ids)
			reap_rings(drainer, share, &share->arenas[i]);
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++)
			drain_ring(drainer, share, &share->arenas[i], k);
	}
	/* The target may have ended while the server thread had the lock. */
	if (!share_is_over(share) && !target->alone)
		serve_target(share);
}

/*
 * Who follows reads a clock sample as: what is older than the sample before is
 * in the file.  So the rounds that read everything end with their beginning.
 */
static void mark_round(struct drainer *drainer, const struct calltap_file_clock *began)
{
	struct instance *instance = drainer->instance;

	if (began->ticks && trace_writer_chunk(instance->writer, CALLTAP_CHUNK_CLOCK, began, sizeof(*began)))
		drainer->busy = true; /* an error of the file, told at the end */
	drainer->next_follow_ns = clock_now_ns() + FOLLOW_NS;
}

/*
 * When the brief records that the file has by now were written.  Of a flight recorder this is told in memory, and the
 * records are looked at.
 */
static void write_ticks(struct drainer *drainer, uint64_t now)
{
	struct instance *instance = drainer->instance;
	struct brief *brief = instance->brief;

	if (!brief)
		return;
	brief_look_awake(brief);
	if (instance->options->mode == CALLTAP_MODE_OVERWRITE) {
		peek_round(instance, now);
		brief_tell(brief);
	} else if (brief_write(brief, instance->writer)) {
		drainer->busy = true; /* an error of the file, told at the end */
	}
}

static void round_once(struct drainer *drainer)
{
	struct instance *instance = drainer->instance;
	struct session *session = instance->session;
	struct calltap_file_clock began = {0};
	uint64_t now = clock_now_ns();
	bool reap = now >= drainer->next_reap_ns;

	drainer->busy = false;
	drainer->follow = instance->options->follow && now >= drainer->next_follow_ns &&
			  instance->options->mode <= CALLTAP_MODE_DROP;
	session_lock(session);
	if (drainer->follow)
		began = timing_now(session);
	for (struct share *share = instance->shares; share; share = share->next) {
		drain_share(drainer, share, reap);
		let_server(drainer);
		let_back(drainer);
	}
	write_ticks(drainer, now);
	/* A follower (trace/follow.c) has to find the CPUS chunks before the clock sample that lets it hand out
	 * records. */
	if (drainer->follow && trace_writer_flush(instance->writer))
		drainer->busy = true; /* an error of the file, told at the end */
	if (drainer->follow)
		mark_round(drainer, &began);
	session_unlock(session);
	if (reap)
		drainer->next_reap_ns = clock_now_ns() + REAP_NS;
}

/* Sleep until a writer rings the doorbell, IDLE_NS at the most. */
static void rest_until_rung(struct calltap_board *board, uint32_t seen)
{
	struct timespec idle = {0, IDLE_NS};

	__atomic_store_n(&board->reader_asleep, 1, __ATOMIC_SEQ_CST); /* pairs with ring_bell() */
	syscall(SYS_futex, &board->doorbell, FUTEX_WAIT, seen, &idle, NULL, 0);
	__atomic_store_n(&board->reader_asleep, 0, __ATOMIC_SEQ_CST);
}

/* Do the drainer's work for the session, whatever instances there are. */
static void attend_session(struct session *session, uint64_t *next_look_ns)
{
	uint64_t now = clock_now_ns();

	session_lock(session);
	timing_tick(session, now);
	if (session->images.watch)
		watch_poll(session->images.watch);
	if (now >= *next_look_ns) {
		strays_note_all(session);
		*next_look_ns = now + REAP_NS;
	}
	session_unlock(session);
}

/* Instances have their turn one after the other; none goes away meanwhile (further_take_out()). */
static bool round_of_all(struct drainer *drainers, struct session *session)
{
	bool busy = false;

	session_lock(session);
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++) {
		struct drainer *drainer = &drainers[i];

		if (drainer->instance != session->instances[i])
			*drainer = (struct drainer){.instance = session->instances[i]};
		if (!drainer->instance)
			continue;
		session->drainer.at = drainer->instance;
		session_unlock(session);
		round_once(drainer);
		busy |= drainer->busy;
		session_lock(session);
		session->drainer.at = NULL;
		pthread_cond_broadcast(&session->answered);
	}
	session_unlock(session);
	return busy;
}

static void *drain_main(void *arg)
{
	struct drainer drainers[CALLTAP_INSTANCES] = {{0}};
	struct session *session = arg;
	uint64_t next_look_ns = 0;
	bool stop;

	do {
		uint32_t seen = __atomic_load_n(&session->board->doorbell, __ATOMIC_SEQ_CST);

		stop = __atomic_load_n(&session->drainer.stop, __ATOMIC_ACQUIRE);
		attend_session(session, &next_look_ns);
		guests_look(session);
		if (!round_of_all(drainers, session) && !stop)
			rest_until_rung(session->board, seen);
	} while (!stop);
	return NULL;
}

int drain_start(struct session *session)
{
	int ret = thread_start(&session->drainer.thread, drain_main, session);

	session->drainer.runs = !ret;
	return ret;
}

static bool has_more(const struct instance *instance)
{
	const struct share *share = instance ? instance->shares : NULL;

	while (share && (!share_is_over(share) || !share->arena_count))
		share = share->next;
	return share != NULL;
}

static bool any_has_more(const struct session *session)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (has_more(session->instances[i]))
			return true;
	return false;
}

void drain_finish(struct session *session)
{
	session_lock(session);
	session_wake_drainer(session);
	while (session->drainer.runs && any_has_more(session)) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		(void)pthread_cond_clockwait(&session->answered, &session->lock, CLOCK_MONOTONIC, &until);
		progress_show(session, false);
	}
	session_unlock(session);
}

void drain_stop(struct session *session)
{
	if (!session->drainer.runs)
		return;
	__atomic_store_n(&session->drainer.stop, true, __ATOMIC_RELEASE);
	session_wake_drainer(session);
	pthread_join(session->drainer.thread, NULL);
	session->drainer.runs = false;
}
