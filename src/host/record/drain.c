/*
 * The drainer: from rings to the file, while the targets run.
 *
 * One thread.  Sub-buffers that a writer has left behind go to the file and
 * back to the writer (block and drop mode); what is in a ring when its thread
 * or process has ended goes last.  In overwrite mode nothing is touched before
 * the process has ended (snapshot.c).  Everything in a ring is the target's to scribble on: counters are
 * read once and bounded, records are decoded by the encoder, which takes
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

#include <host/thread.h>

#include "instances.h"
#include "session.h"
#include "triggers.h"

#define IDLE_NS	  10000000 /* longest sleep between rounds: 10 ms */
#define REAP_NS	  50000000 /* how often ended threads are looked for */
#define FOLLOW_NS 50000000 /* how often open sub-buffers are read, when somebody follows */
#define SHUT_IN	  (CALLTAP_NOTE_QUIET | CALLTAP_NOTE_NO_CHILDREN | CALLTAP_NOTE_END)
#define HOPS_MAX  256u /* rings that a thread has left between two looks; more are nonsense */

struct drainer {
	struct session *session;
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
 * session->threads may move, and the process may have ended.
 */
static void let_server(const struct drainer *drainer)
{
	if (!drainer->taking)
		session_unlock(drainer->session);
}

static void let_back(const struct drainer *drainer)
{
	if (!drainer->taking)
		session_lock(drainer->session);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* A copy of what the target may be writing to: each word is read once, the number first. */
static void copy_head(struct calltap_subbuf *head, const struct calltap_subbuf *sub)
{
	head->number = __atomic_load_n(&sub->number, __ATOMIC_ACQUIRE); /* pairs with D in ring_open_next() */
	head->ticks = __atomic_load_n(&sub->ticks, __ATOMIC_RELAXED);
	head->owner = __atomic_load_n(&sub->owner, __ATOMIC_RELAXED);
	head->tid = __atomic_load_n(&sub->tid, __ATOMIC_RELAXED);
	for (size_t i = 0; i < sizeof(head->comm); i++)
		head->comm[i] = __atomic_load_n(&sub->comm[i], __ATOMIC_RELAXED);
	head->comm[sizeof(head->comm) - 1] = 0;
}

/*
 * Is what was read from the sub-buffer whole?  Its writer may overwrite it at
 * any time in overwrite mode, and takes the number away before it does.
 */
static bool is_whole(const struct calltap_subbuf *sub, uint64_t number)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with the fence after A in ring_open_next() */
	return __atomic_load_n(&sub->number, __ATOMIC_ACQUIRE) == number + 1;
}

static void finish_before(struct drainer *drainer, struct process *process, const struct calltap_ring *ring,
			  uint32_t owner);

/* The thread that the sub-buffer is of; its owner differs from the last one's when the ring changed hands. */
static int thread_of(struct drainer *drainer, struct process *process, struct ring_reader *reader,
		     const struct calltap_ring *ring, const struct calltap_subbuf *head, struct target_thread **thread)
{
	struct session *session = drainer->session;
	uint32_t index = UINT32_MAX;
	int ret = 0;

	if (reader->thread == UINT32_MAX || reader->owner != head->owner) {
		if (head->owner & CALLTAP_OWNER_MOVED) {
			finish_before(drainer, process, ring, head->owner);
			index = resize_find_thread(session, process, head->owner);
		}
		if (index == UINT32_MAX)
			ret = threads_add(session, process, head->tid, head->ticks, &index);
		if (ret)
			return ret;
		reader->thread = index;
		session->threads[index].owner = head->owner & ~CALLTAP_OWNER_MOVED;
	}
	reader->owner = head->owner;
	*thread = &session->threads[reader->thread];
	threads_name(session, process, *thread, head->comm);
	return 0;
}

/* The end of the whole records from `from` on, up to the first slot that is taken and not written yet. */
static uint32_t whole_records(const uint64_t *words, uint32_t from, uint32_t count)
{
	uint32_t i = from;

	while (i < count) {
		/* Acquire: a record's second word is written before its head; pairs with ring_put(). */
		uint64_t head = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
		unsigned kind = calltap_record_kind(head), size = calltap_record_words(kind);

		if (!head || size > count - i ||
		    (kind == CALLTAP_REC_TIME && !__atomic_load_n(&words[i + 1], __ATOMIC_RELAXED)))
			break;
		i += size;
	}
	return i;
}

/* Where in the sub-buffer its records go on that are not in the file, and a time to encode them with. */
static uint32_t rest_of(const struct ring_reader *reader, const struct calltap_subbuf *head, uint64_t number,
			uint64_t *ticks)
{
	bool begun = reader->part_words && reader->part_number == number;

	*ticks = begun ? reader->part_ticks : head->ticks;
	return begun ? reader->part_words : 0;
}

/* One sub-buffer to the file; open: its writer goes on in it, so as far as it is written. */
static int drain_sub(struct drainer *drainer, struct process *process, struct target_arena *arena, uint32_t index,
		     uint64_t number, bool open)
{
	struct session *session = drainer->session;
	struct ring_reader *reader = &arena->rings[index];
	struct calltap_ring *ring = ring_of(arena, index);
	const struct calltap_subbuf *sub =
		(void *)((char *)ring + CALLTAP_PAGE + number % arena->sub_count * arena->sub_size);
	const uint64_t *words = (const uint64_t *)(sub + 1);
	uint32_t from, end = (uint32_t)((arena->sub_size - sizeof(*sub)) / sizeof(*words));
	struct encode_result encoded;
	struct calltap_subbuf head;
	struct target_thread *thread;
	const void *payload;
	uint64_t ticks, sequence;
	uint32_t row;
	size_t size;
	int ret;

	copy_head(&head, sub);
	if (head.number != number + 1 || !is_whole(sub, number)) {
		session->overwritten++; /* or scribbled on */
		return 0;
	}
	from = rest_of(reader, &head, number, &ticks);
	if (open)
		end = whole_records(words, from, end);
	if (from == end)
		return 0;
	ret = thread_of(drainer, process, reader, ring, &head, &thread);
	if (ret)
		return ret;
	row = thread->row.thread;
	sequence = thread->next_number;
	let_server(drainer);
	ret = record_encode(session->encoder, row, sequence, ticks, words + from, end - from, &payload, &size,
			    &encoded);
	let_back(drainer);
	thread = &session->threads[reader->thread];
	if (open) {
		(void)record_skip_older(words + from, end - from, UINT64_MAX, &ticks);
		reader->part_number = number;
		reader->part_words = end;
		reader->part_ticks = ticks;
	}
	if (ret || !size)
		return ret;
	if (!is_whole(sub, number)) {
		session->overwritten++;
		return 0;
	}
	if (thread->dirty)
		ret = threads_write(session, thread);
	if (!ret)
		ret = trace_writer_chunk(session->writer, CALLTAP_CHUNK_DATA, payload, size);
	thread->next_number++;
	thread->row.lost += encoded.lost;
	reader->lost_told += encoded.lost;
	reader->wait_told += encoded.wait_ticks;
	thread->row.wait_ticks += encoded.wait_ticks;
	thread->row.end_ticks = encoded.last_ticks;
	session->holes += encoded.holes;
	session->result->records += encoded.records;
	session->result->lost += encoded.lost;
	drainer->busy = true;
	return ret;
}

static void release(struct calltap_ring *ring, uint64_t number)
{
	/* Release: what we read of the sub-buffer comes before; pairs with room_left() in the writer. */
	__atomic_store_n(&ring->released, number, __ATOMIC_RELEASE);
	__atomic_add_fetch(&ring->wake, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ring->waiting, __ATOMIC_SEQ_CST))
		futex_wake(&ring->wake);
}

/*
 * A thread that ended while it was losing records, or right after a wait,
 * could not write that down any more; the ring's totals have it.  When another
 * thread has taken the ring over since, the rest is put to that one's account.
 */
static void count_rest(struct session *session, struct ring_reader *reader, const struct calltap_ring *ring)
{
	uint64_t lost = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED) - reader->lost_told;
	uint64_t wait = __atomic_load_n(&ring->wait_ticks, __ATOMIC_RELAXED) - reader->wait_told;
	struct target_thread *thread;

	if (reader->thread == UINT32_MAX || !(lost | wait) || (int64_t)(lost | wait) < 0)
		return; /* nothing left to tell, or scribbled on */
	thread = &session->threads[reader->thread];
	session->result->lost += lost;
	thread->row.lost += lost;
	thread->row.wait_ticks += wait;
	reader->lost_told += lost;
	reader->wait_told += wait;
	thread->dirty = true;
}

/*
 * The sub-buffers below end, of the `opened` ones.  Errors of the file are kept
 * by the writer and told at the end: the target's rings are emptied all the
 * same, so that it never waits for a full disk.
 */
static void drain_below(struct drainer *drainer, struct process *process, struct target_arena *arena, uint32_t index,
			uint64_t opened, uint64_t end)
{
	struct session *session = drainer->session;
	struct ring_reader *reader = &arena->rings[index];

	if (opened - reader->drained > arena->sub_count) { /* overwritten; or scribbled on */
		session->overwritten += opened - arena->sub_count - reader->drained;
		reader->drained = opened - arena->sub_count;
	}
	while (reader->drained < end) {
		if (drain_sub(drainer, process, arena, index, reader->drained, false))
			drainer->busy = true;
		reader->drained++;
		release(ring_of(arena, index), reader->drained);
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
static void take_left(struct drainer *drainer, struct process *process, struct target_arena *arena, uint32_t index)
{
	struct ring_reader *reader = &arena->rings[index];
	const struct calltap_ring *ring = ring_of(arena, index);
	uint64_t opened = opened_of(arena, index);
	bool within = drainer->taking;

	drainer->taking = true;
	__atomic_store_n(&arena->arena->state[index], CALLTAP_RING_OUT, __ATOMIC_RELEASE); /* nobody claims it */
	if (opened > reader->drained)
		drain_below(drainer, process, arena, index, opened, opened);
	reader->thread = UINT32_MAX;
	reader->part_words = 0;
	reader->lost_told = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED);
	reader->wait_told = __atomic_load_n(&ring->wait_ticks, __ATOMIC_RELAXED);
	resize_put_back(arena, index);
	drainer->taking = within;
	drainer->busy = true;
}

/* Of the rings that this thread has left, the one it had first, before that time; NULL = there is none. */
static struct target_arena *oldest_left(struct process *process, uint32_t owner, uint64_t before, uint32_t *index)
{
	struct target_arena *found = NULL;

	for (uint32_t i = 0; i < process->arena_count; i++)
		for (uint32_t k = 0; k < process->arenas[i].ring_count; k++) {
			const struct calltap_ring *ring = ring_of(&process->arenas[i], k);
			uint64_t ticks = __atomic_load_n(&ring->claim_ticks, __ATOMIC_RELAXED);

			if (state_of(&process->arenas[i], k) != CALLTAP_RING_LEFT || ticks >= before ||
			    (__atomic_load_n(&ring->owner, __ATOMIC_RELAXED) | CALLTAP_OWNER_MOVED) !=
				    (owner | CALLTAP_OWNER_MOVED))
				continue;
			before = ticks;
			*index = k;
			found = &process->arenas[i];
		}
	return found;
}

/*
 * What a thread wrote before it came to this ring goes first.  It left those
 * rings before it opened a sub-buffer here, and may have left this one since.
 * A ring that is another's now was its last.
 */
static void finish_before(struct drainer *drainer, struct process *process, const struct calltap_ring *ring,
			  uint32_t owner)
{
	bool still = __atomic_load_n(&ring->owner, __ATOMIC_ACQUIRE) == owner;
	uint64_t before = still ? __atomic_load_n(&ring->claim_ticks, __ATOMIC_RELAXED) : UINT64_MAX;
	struct target_arena *arena;
	uint32_t index;

	if (drainer->finishing || drainer->session->options->mode > CALLTAP_MODE_DROP)
		return; /* the oldest is being taken: there is none before it */
	drainer->finishing = true;
	for (uint32_t i = 0; i < HOPS_MAX && (arena = oldest_left(process, owner, before, &index)); i++)
		take_left(drainer, process, arena, index);
	drainer->finishing = false;
}

/* What a living writer has left behind. */
static void drain_ring(struct drainer *drainer, struct process *process, struct target_arena *arena, uint32_t index)
{
	uint64_t opened;

	if (state_of(arena, index) == CALLTAP_RING_LEFT && drainer->session->options->mode <= CALLTAP_MODE_DROP) {
		take_left(drainer, process, arena, index);
		return;
	}
	opened = opened_of(arena, index);
	if (opened > arena->rings[index].drained && drainer->session->options->mode <= CALLTAP_MODE_DROP)
		drain_below(drainer, process, arena, index, opened, opened - 1);
	if (drainer->follow && opened > arena->rings[index].drained &&
	    drain_sub(drainer, process, arena, index, opened - 1, true))
		drainer->busy = true; /* an error of the file, told at the end */
}

/* All there is of a writer that has ended. */
static void finish_ring(struct drainer *drainer, struct process *process, struct target_arena *arena, uint32_t index,
			uint64_t opened)
{
	struct ring_reader *reader = &arena->rings[index];

	if (opened <= reader->drained || drainer->session->options->mode > CALLTAP_MODE_DROP)
		return;
	drain_below(drainer, process, arena, index, opened, opened);
	count_rest(drainer->session, reader, ring_of(arena, index));
}

/* Not asked of /proc: a program that shares our mounts may take that away, and then nobody would live. */
static bool thread_lives(const struct process *process, uint32_t tid)
{
	return !syscall(SYS_tgkill, process->pid, tid, 0) || errno == EPERM;
}

/* Rings of threads that have ended: take the rest, end the thread, free the ring. */
static void reap_rings(struct drainer *drainer, struct process *process, struct target_arena *arena)
{
	struct session *session = drainer->session;

	for (uint32_t i = 0; i < arena->ring_count; i++) {
		uint32_t state = state_of(arena, i);
		struct ring_reader *reader = &arena->rings[i];
		uint64_t opened;

		if (!ring_is_claimed(state))
			continue;
		if (thread_lives(process, state - CALLTAP_RING_CLAIMED)) {
			if (reader->thread != UINT32_MAX)
				threads_refresh(session, process, &session->threads[reader->thread]);
			continue;
		}
		if (session->options->mode == CALLTAP_MODE_OVERWRITE)
			continue; /* kept as history until a new thread takes the ring over */
		/* A thread that takes it over changes the state first: what was opened until here is the dead one's. */
		opened = opened_of(arena, i);
		if (__atomic_load_n(&arena->arena->state[i], __ATOMIC_ACQUIRE) != state)
			continue;
		finish_ring(drainer, process, arena, i, opened);
		if (reader->thread != UINT32_MAX)
			session->threads[reader->thread].row.ended = 1;
		if (__atomic_compare_exchange_n(&arena->arena->state[i], &state, CALLTAP_RING_OUT, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			resize_put_back(arena, i);
		drainer->busy = true;
	}
}

/* A target that does not read what it is sent: the server sees the connection end, and waits for it no more. */
static void give_up(struct session *session, const struct process *process, int error)
{
	if (error != -EPIPE && error != -ECONNRESET)
		session_diagnose(session, "process %d could not be told more: %s; its trace ends there",
				 (int)process->pid, strerror(-error));
	targets_read_on(process);
	shutdown(process->socket, SHUT_RDWR);
}

/* What the target asks for in its first arena's head. */
static void answer_requests(struct session *session, struct process *process)
{
	const struct calltap_msg rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	struct target_arena *arena = &process->arenas[0];
	uint32_t request = __atomic_load_n(&arena->arena->request, __ATOMIC_RELAXED);
	int ret = rings_supply(session, process);

	if (ret)
		give_up(session, process, ret);
	if (request != arena->request_seen && process->settled) {
		arena->request_seen = request;
		process->settled = false;
		ret = channel_send(process->socket, &rescan, sizeof(rescan), NULL, 0);
		if (ret)
			give_up(session, process, ret);
	}
}

/* The process' first arena goes, and its counters with it: they go to the result. */
static void keep_notes(struct session *session, struct process *process)
{
	struct record_result *result = session->result;
	uint32_t notes = __atomic_load_n(&process->arenas[0].arena->notes, __ATOMIC_RELAXED);

	result->untraced += rings_untraced(session, process);
	for (uint32_t set = 0; set < CALLTAP_INSTANCES; set++)
		process->untraced[set] = rings_counted(process, set);
	result->shut_in += (notes & SHUT_IN) != 0;
	result->spaces += (notes & CALLTAP_NOTE_SPACES) != 0;
}

static void finish_process(struct drainer *drainer, struct process *process)
{
	struct session *session = drainer->session;

	if (session->options->mode == CALLTAP_MODE_OVERWRITE && snapshot_of_ended(session, process))
		session_diagnose(session, "not enough memory to save what process %d did last", (int)process->pid);
	if (session->options->mode == CALLTAP_MODE_PROFILE && profile_keep(session, process))
		session_diagnose(session, "not enough memory to keep the sums of process %d", (int)process->pid);
	for (uint32_t i = 0; i < process->arena_count; i++)
		for (uint32_t k = 0; k < process->arenas[i].ring_count; k++)
			finish_ring(drainer, process, &process->arenas[i], k, opened_of(&process->arenas[i], k));
	if (process->arena_count)
		keep_notes(session, process);
	/* All of them after that: a thread's rings may lie in several. */
	for (uint32_t i = 0; i < process->arena_count; i++)
		arena_destroy(session, &process->arenas[i], trace_writer_error(session->writer) != 0);
	process->arena_count = 0;
	process->drained = true;
	eventfd_write(session->drained_fd, 1);
	pthread_cond_broadcast(&session_root(session)->answered);
	for (uint32_t i = 0; i < session->thread_count; i++)
		if (session->threads[i].row.process == process->index && session->threads[i].dirty &&
		    threads_write(session, &session->threads[i]))
			break;
	drainer->busy = true;
}

static void drain_process(struct drainer *drainer, struct process *process, bool reap)
{
	struct session *session = drainer->session;
	int ret;

	if (process->of)
		instance_follow(session, process);
	if (process->drained || !process->arena_count)
		return;
	if (process->ended) {
		finish_process(drainer, process);
		return;
	}
	if (reap)
		strays_note_executed(session, process);
	if (reap)
		resize_collect(process);
	for (uint32_t i = 0; i < process->arena_count; i++) {
		if (reap && !process->other_ids)
			reap_rings(drainer, process, &process->arenas[i]);
		for (uint32_t k = 0; k < process->arenas[i].ring_count; k++)
			drain_ring(drainer, process, &process->arenas[i], k);
	}
	if (process->ended)
		return; /* while the server had its turn */
	if (!process->alone)
		answer_requests(session, process);
	ret = tables_tell(session, process);
	if (ret)
		give_up(session, process, ret);
}

/*
 * Who follows reads a clock sample as: what is older than the sample before is
 * in the file.  So the rounds that read everything end with their beginning.
 */
static void mark_round(struct drainer *drainer, const struct calltap_file_clock *began)
{
	struct session *session = drainer->session;

	if (began->ticks && trace_writer_chunk(session->writer, CALLTAP_CHUNK_CLOCK, began, sizeof(*began)))
		drainer->busy = true; /* an error of the file, told at the end */
	drainer->next_follow_ns = clock_now_ns() + FOLLOW_NS;
}

static void round_once(struct drainer *drainer)
{
	struct session *session = drainer->session;
	struct calltap_file_clock began = {0};
	uint64_t now = clock_now_ns();
	bool reap = now >= drainer->next_reap_ns;

	drainer->busy = false;
	drainer->follow = session->options->follow && now >= drainer->next_follow_ns &&
			  session->options->mode <= CALLTAP_MODE_DROP;
	session_lock(session);
	timing_tick(session, now);
	if (session->images.triggers)
		triggers_poll(session->images.triggers);
	if (drainer->follow)
		began = timing_now(session);
	for (struct process *process = session->processes; process; process = process->next) {
		drain_process(drainer, process, reap);
		let_server(drainer);
		let_back(drainer);
	}
	if (drainer->follow)
		mark_round(drainer, &began);
	session_unlock(session);
	if (reap)
		drainer->next_reap_ns = clock_now_ns() + REAP_NS;
}

/* Until a writer rings, or IDLE_NS. */
static void rest(struct calltap_board *board, uint32_t seen)
{
	struct timespec idle = {0, IDLE_NS};

	__atomic_store_n(&board->reader_asleep, 1, __ATOMIC_SEQ_CST); /* pairs with ring_bell() */
	syscall(SYS_futex, &board->doorbell, FUTEX_WAIT, seen, &idle, NULL, 0);
	__atomic_store_n(&board->reader_asleep, 0, __ATOMIC_SEQ_CST);
}

/* Those of further instances, one after the other; none goes away meanwhile (instance_take_out()). */
static void round_of_instances(struct drainer *drainers, struct session *root)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES - 1; i++) {
		struct drainer *drainer = &drainers[i];

		session_lock(root);
		if (drainer->session != root->instances[i])
			*drainer = (struct drainer){.session = root->instances[i]};
		root->draining = drainer->session;
		session_unlock(root);
		if (!drainer->session)
			continue;
		round_once(drainer);
		session_lock(root);
		root->draining = NULL;
		pthread_cond_broadcast(&root->answered);
		session_unlock(root);
	}
}

static bool any_busy(const struct drainer *drainers)
{
	bool busy = false;

	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		busy |= drainers[i].session && drainers[i].busy;
	return busy;
}

static void *drain_main(void *arg)
{
	struct drainer drainers[CALLTAP_INSTANCES] = {{.session = arg}};
	struct session *session = arg;
	bool stop;

	do {
		uint32_t seen = __atomic_load_n(&session->board->doorbell, __ATOMIC_SEQ_CST);

		stop = __atomic_load_n(&session->stop, __ATOMIC_ACQUIRE);
		round_once(&drainers[0]);
		round_of_instances(drainers + 1, session);
		if (!any_busy(drainers) && !stop)
			rest(session->board, seen);
	} while (!stop);
	return NULL;
}

int drain_start(struct session *session)
{
	int ret = record_encoder_create(&session->encoder);

	if (ret)
		return ret;
	ret = thread_start(&session->drainer, drain_main, session);
	session->drainer_runs = !ret;
	return ret;
}

void drain_wake(struct session *session)
{
	__atomic_add_fetch(&session->board->doorbell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&session->board->doorbell);
}

static bool has_more(const struct session *session)
{
	const struct process *process = session->processes;

	while (process && (!process->ended || process->drained || !process->arena_count))
		process = process->next;
	return process != NULL;
}

void drain_finish(struct session *session)
{
	session_lock(session);
	drain_wake(session);
	while (session->drainer_runs && has_more(session)) {
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
	if (!session->drainer_runs)
		return;
	__atomic_store_n(&session->stop, true, __ATOMIC_RELEASE);
	drain_wake(session);
	pthread_join(session->drainer, NULL);
	session->drainer_runs = false;
}
