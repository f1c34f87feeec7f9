/*
 * Rings that a writer has filled, and rings that something has scribbled on.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define RECORDS 10u
#define FULL	((SUB_SIZE - sizeof(struct calltap_subbuf)) / sizeof(uint64_t)) /* records of one word */

static struct calltap_ring *add_ring(struct bench *bench)
{
	int fd;

	assert_int_equal(arena_add(bench->share, 1, &fd), 0);
	close(fd);
	return (void *)((char *)bench->share->arenas[0].arena + CALLTAP_PAGE);
}

static struct calltap_subbuf *sub_at(struct calltap_ring *ring, uint64_t number)
{
	return (void *)((char *)ring + CALLTAP_PAGE + number % SUB_COUNT * SUB_SIZE);
}

/* Fill sub-buffers [from, to) as a writer does, with RECORDS calls each. */
static void fill(struct calltap_ring *ring, uint64_t from, uint64_t to)
{
	for (uint64_t number = from; number < to; number++) {
		struct calltap_subbuf *sub = sub_at(ring, number);
		uint64_t *words = (uint64_t *)(sub + 1);

		*sub = (struct calltap_subbuf){.number = number + 1, .ticks = 1000 + number, .tid = ring->tid};
		for (uint32_t i = 0; i < RECORDS; i++)
			words[i] = calltap_record_make(CALLTAP_REC_ENTRY, i, 1000 + i);
	}
	__atomic_store_n(&ring->opened, to, __ATOMIC_RELEASE);
}

static bool is_released(struct calltap_ring *ring, uint64_t number)
{
	for (int i = 0; i < 5000; i++) {
		if (__atomic_load_n(&ring->released, __ATOMIC_ACQUIRE) >= number)
			return true;
		usleep(1000);
	}
	return false;
}

/* The process is over: wait until all of it is in the file. */
static void finish(struct bench *bench)
{
	bool drained = false;

	session_lock(&bench->session);
	bench->process.ended = true;
	session_unlock(&bench->session);
	session_wake_drainer(&bench->session);
	for (int i = 0; i < 5000 && !drained; i++) {
		usleep(1000);
		session_lock(&bench->session);
		drained = target_is_drained(&bench->process);
		session_unlock(&bench->session);
	}
	assert_true(drained);
	drain_stop(&bench->session);
}

static void left_sub_buffers_are_taken(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_ring *ring = add_ring(bench);

	ring->tid = (uint32_t)gettid();
	fill(ring, 0, 3);
	assert_int_equal(drain_start(&bench->session), 0);
	assert_true(is_released(ring, 2));
	usleep(50000);
	assert_int_equal(__atomic_load_n(&ring->released, __ATOMIC_ACQUIRE), 2); /* the writer is in the third */
	finish(bench);
	assert_int_equal(bench->result.records, 3 * RECORDS);
	assert_int_equal(bench->instance.thread_count, 1);
	assert_int_equal(bench->instance.threads[0].row.tid, gettid());
	assert_int_equal(bench->instance.overwritten, 0);
	bench_destroy(bench);
}

/* `calltap status` counts what no file has yet, so that a rate needs no whole sub-buffers. */
static void what_lies_in_the_rings_is_counted(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_DROP);
	struct calltap_ring *ring = add_ring(bench);
	uint64_t *words = (uint64_t *)(sub_at(ring, 2) + 1);

	assert_int_equal(pending_records(bench->share), 0);
	fill(ring, 0, 3);
	assert_int_equal(pending_records(bench->share), 3 * RECORDS);
	words[RECORDS] = calltap_record_make(CALLTAP_REC_TIME, 0, 0);
	words[RECORDS + 1] = 5000;
	words[RECORDS + 2] = calltap_record_make(CALLTAP_REC_EXIT, 1, 0);
	words[RECORDS + 4] = calltap_record_make(CALLTAP_REC_EXIT, 1, 0); /* behind a slot that is not written yet */
	assert_int_equal(pending_records(bench->share), 3 * RECORDS + 1);
	bench->share->arenas[0].rings[0].drained = 2;
	assert_int_equal(pending_records(bench->share), RECORDS + 1);
	bench->share->arenas[0].rings[0].part_number = 2; /* a follower has read these */
	bench->share->arenas[0].rings[0].part_words = RECORDS;
	assert_int_equal(pending_records(bench->share), 1);
	bench->share->arenas[0].rings[0].drained = 0; /* more than are read: as full ones, of which these are not */
	fill(ring, 3, 4);
	assert_int_equal(pending_records(bench->share), 3 * FULL + RECORDS);
	__atomic_store_n(&ring->opened, 1u << 30, __ATOMIC_RELEASE); /* scribbled on */
	assert_int_equal(pending_records(bench->share), 0);
	bench_destroy(bench);
}

/* Seven were opened, four are there, and the writer was at one of these when the reader came. */
static void overwritten_sub_buffers_are_counted(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_OVERWRITE);
	struct calltap_ring *ring = add_ring(bench);

	fill(ring, 0, 7);
	sub_at(ring, 4)->number = 0;
	sub_at(ring, 4)->owner = 77;
	assert_int_equal(drain_start(&bench->session), 0);
	usleep(50000);
	assert_int_equal(__atomic_load_n(&ring->released, __ATOMIC_ACQUIRE),
			 0); /* the drainer takes nothing before the end */
	finish(bench);
	assert_int_equal(bench->result.records, 3 * RECORDS);
	assert_int_equal(bench->instance.overwritten, 3 + 1);
	assert_int_equal(bench->instance.thread_count, 1); /* a torn head makes no thread */
	bench_destroy(bench);
}

static void scribbled_counters_do_no_harm(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_ring *ring = add_ring(bench);

	fill(ring, 0, 2);
	ring->opened = UINT64_MAX;
	ring->sub_count = 0;
	ring->sub_size = 1;
	assert_int_equal(drain_start(&bench->session), 0);
	finish(bench);
	assert_int_equal(bench->result.records, 0);
	bench_destroy(bench);
}

static bool has_lost(struct bench *bench, uint64_t count)
{
	uint64_t lost = 0;

	for (int i = 0; i < 5000 && lost != count; i++) {
		usleep(1000);
		session_lock(&bench->session);
		lost = bench->result.lost;
		session_unlock(&bench->session);
	}
	return lost == count;
}

/* A follower knows a thread's losses before the thread's next LOST record; that record does not count them again. */
static void losses_are_counted_once(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_DROP);
	struct calltap_ring *ring = add_ring(bench);
	uint64_t *words = (uint64_t *)(sub_at(ring, 0) + 1);

	bench->options.follow = true;
	ring->tid = (uint32_t)gettid();
	fill(ring, 0, 1);
	bench->share->arenas[0].arena->state[0] = CALLTAP_RING_CLAIMED + (uint32_t)gettid();
	assert_int_equal(drain_start(&bench->session), 0);
	__atomic_store_n(&ring->lost, 5, __ATOMIC_RELAXED);
	assert_true(has_lost(bench, 5));
	assert_int_equal(bench->instance.threads[0].row.lost, 5);
	__atomic_store_n(&ring->lost, 7, __ATOMIC_RELAXED);
	words[RECORDS + 1] = 7;
	__atomic_store_n(&words[RECORDS], calltap_record_make(CALLTAP_REC_LOST, 0, 2000), __ATOMIC_RELEASE);
	assert_true(has_lost(bench, 7));
	usleep(120000); /* two more looks */
	finish(bench);
	assert_int_equal(bench->result.lost, 7);
	assert_int_equal(bench->instance.threads[0].row.lost, 7);
	bench_destroy(bench);
}

/* The rest of an ended thread's ring is taken and the ring is free for the next one. */
static void rings_of_ended_threads_are_freed(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_ring *ring = add_ring(bench);
	uint32_t *claim = &bench->share->arenas[0].arena->state[0];
	pid_t gone = fork();

	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0); /* no thread of ours has that id now */
	ring->tid = (uint32_t)gone;
	ring->lost = 5;
	fill(ring, 0, 1);
	*claim = CALLTAP_RING_CLAIMED + (uint32_t)gone;
	assert_int_equal(drain_start(&bench->session), 0);
	for (int i = 0; i < 5000 && __atomic_load_n(claim, __ATOMIC_ACQUIRE) != CALLTAP_RING_FREE; i++)
		usleep(1000);
	assert_int_equal(__atomic_load_n(claim, __ATOMIC_ACQUIRE), CALLTAP_RING_FREE);
	assert_int_equal(__atomic_load_n(&ring->released, __ATOMIC_ACQUIRE), 1);
	finish(bench);
	assert_int_equal(bench->result.records, RECORDS);
	assert_int_equal(bench->result.lost, 5);
	bench_destroy(bench);
}

static void one_round(struct bench *bench)
{
	bench->session.drainer.stop = true;
	assert_int_equal(drain_start(&bench->session), 0);
	drain_stop(&bench->session);
}

/* All rings of the newest arena are this thread's, and it wants another. */
static void starve(struct bench *bench)
{
	struct target_arena *arena = &bench->share->arenas[bench->share->arena_count - 1];

	for (uint32_t i = 0; i < arena->ring_count; i++)
		arena->arena->state[i] = CALLTAP_RING_CLAIMED + (uint32_t)gettid();
	bench->share->arenas[0].arena->starved++;
	one_round(bench);
}

/* The next message that the target has got; 0: none, as the tool has hung up; -1: none yet. */
static int next_type(struct bench *bench)
{
	struct calltap_msg_arena message;
	ssize_t got = recv(bench->target, &message, sizeof(message), MSG_DONTWAIT);

	return got > 0 ? (int)message.head.type : (int)got;
}

/* A target that reads nothing any more. */
static void stuff(struct bench *bench)
{
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)};

	assert_int_equal(fcntl(bench->process.socket, F_SETFL, O_NONBLOCK), 0);
	while (!channel_send(bench->process.socket, &go, sizeof(go), NULL, 0))
		;
}

static void hung_up(struct bench *bench)
{
	int type = CALLTAP_MSG_GO;

	while (type == CALLTAP_MSG_GO)
		type = next_type(bench);
	assert_int_equal(type, 0);
	/* The drainer takes the rings' records, and the agent is to leave the rings as they are. */
	assert_true(bench->share->arenas[0].arena->notes & CALLTAP_NOTE_READ_ON);
}

static void a_shortage_is_answered_once(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);

	add_ring(bench);
	starve(bench);
	assert_int_equal(next_type(bench), CALLTAP_MSG_ARENA);
	assert_int_equal(bench->share->arena_count, 2);
	assert_int_equal(bench->share->arenas[1].ring_count, CALLTAP_ARENA_RINGS);
	bench->share->arenas[0].arena->starved++;
	one_round(bench);
	assert_int_equal(next_type(bench), -1); /* there are free rings */
	assert_int_equal(bench->share->arena_count, 2);
	bench_destroy(bench);
}

static void claim(struct bench *bench, uint32_t arena, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		bench->share->arenas[arena].arena->state[i] = CALLTAP_RING_CLAIMED + (uint32_t)gettid();
}

/* Nobody has asked yet.  Of a process with one thread most rings are those of threads that have ended. */
static void a_low_reserve_is_filled_up(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_DROP);
	uint32_t rings = 16;
	int fd;

	assert_int_equal(arena_add(bench->share, rings, &fd), 0);
	close(fd);
	claim(bench, 0, 0, 8);
	one_round(bench);
	assert_int_equal(next_type(bench), -1); /* half as many as are in use are left, eight at the least */
	claim(bench, 0, 8, 12);
	bench->process.detaching = true;
	one_round(bench);
	assert_int_equal(next_type(bench), -1); /* the target is told to end, and expects no more messages */
	bench->process.detaching = false;
	one_round(bench);
	while (next_type(bench) == CALLTAP_MSG_ARENA) {
		uint32_t last = bench->share->arena_count - 1;

		rings += bench->share->arenas[last].ring_count;
		assert_in_range(rings, CALLTAP_ARENA_RINGS, 4 * CALLTAP_ARENA_RINGS);
		claim(bench, last, 0, bench->share->arenas[last].ring_count);
		one_round(bench);
	}
	/* From then on who comes takes over a ring whose thread has ended. */
	assert_in_range(rings, 2 * CALLTAP_ARENA_RINGS, 4 * CALLTAP_ARENA_RINGS);
	bench->share->arenas[0].arena->starved++;
	claim(bench, 0, 12, 16);
	one_round(bench);
	assert_in_range(bench->share->arena_count, 3, 5); /* or waits until one is empty */
	assert_string_equal(bench->instance.diagnosis, "");
	bench_destroy(bench);
}

static void arenas_have_an_end(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_DROP);

	for (uint32_t i = 0; i < TARGET_ARENAS; i++) {
		add_ring(bench);
		claim(bench, i, 0, 1);
	}
	assert_string_equal(bench->instance.diagnosis, "");
	starve(bench);
	assert_int_equal(next_type(bench), -1);
	assert_int_equal(bench->share->arena_count, TARGET_ARENAS);
	assert_string_not_equal(bench->instance.diagnosis, "");
	bench_destroy(bench);
}

static void who_does_not_read_is_given_up(void **state)
{
	struct bench *short_of_rings = bench_create(CALLTAP_MODE_BLOCK), *loading = bench_create(CALLTAP_MODE_BLOCK);

	add_ring(short_of_rings);
	stuff(short_of_rings);
	starve(short_of_rings);
	hung_up(short_of_rings);
	assert_int_equal(short_of_rings->share->arena_count, 1);
	bench_destroy(short_of_rings);

	add_ring(loading);
	stuff(loading);
	loading->process.settled = true;
	loading->share->arenas[0].arena->request++;
	one_round(loading);
	hung_up(loading);
	bench_destroy(loading);
}

/* The tool will take what the rings have: the agent is told before it sees the end. */
static void who_is_hung_up_on_is_told_that_we_read_on(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	const struct calltap_arena *arena;
	char byte;

	add_ring(bench);
	arena = bench->share->arenas[0].arena;
	assert_false(arena->notes & CALLTAP_NOTE_READ_ON);
	targets_end(&bench->session, &bench->process);
	assert_int_equal(recv(bench->target, &byte, 1, MSG_DONTWAIT), 0);
	assert_true(arena->notes & CALLTAP_NOTE_READ_ON);
	bench_destroy(bench);
}

static struct calltap_ring *add_owned(struct bench *bench, uint32_t owner, uint64_t claim_ticks, uint32_t state)
{
	struct share *share = bench->share;
	struct calltap_ring *ring;
	int fd;

	assert_int_equal(arena_add(share, 1, &fd), 0);
	close(fd);
	ring = (void *)((char *)share->arenas[share->arena_count - 1].arena + CALLTAP_PAGE);
	ring->owner = owner;
	ring->claim_ticks = claim_ticks;
	ring->tid = (uint32_t)gettid();
	share->arenas[share->arena_count - 1].arena->state[0] = state;
	return ring;
}

static void own(struct calltap_ring *ring, uint64_t from, uint64_t to)
{
	fill(ring, from, to);
	for (uint64_t number = from; number < to; number++) {
		sub_at(ring, number)->owner = ring->owner;
		sub_at(ring, number)->ticks = ring->claim_ticks + number;
		for (uint32_t i = 0; i < RECORDS; i++)
			((uint64_t *)(sub_at(ring, number) + 1))[i] =
				calltap_record_make(CALLTAP_REC_ENTRY, i, (uint32_t)(ring->claim_ticks + number + i));
	}
}

/* A thread's rings are drained in the order in which it had them, wherever they lie, as one thread. */
static void a_thread_that_has_gone_on_is_one(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	uint32_t here = CALLTAP_RING_CLAIMED + (uint32_t)gettid();
	struct calltap_ring *third = add_owned(bench, 7 | CALLTAP_OWNER_MOVED, 3000000, here);
	struct calltap_ring *second = add_owned(bench, 7 | CALLTAP_OWNER_MOVED, 2000000, CALLTAP_RING_LEFT);
	struct calltap_ring *first = add_owned(bench, 7, 1000000, CALLTAP_RING_LEFT);
	struct calltap_ring *other = add_owned(bench, 8, 1500000, here);
	uint32_t *claim = &bench->share->arenas[1].arena->state[0];

	own(first, 0, 3);
	own(second, 0, 3);
	own(third, 0, 3);
	own(other, 0, 2);
	bench->share->arenas[2].retired = true;
	assert_int_equal(drain_start(&bench->session), 0);
	assert_true(is_released(third, 2));
	assert_true(is_released(first, 3) && is_released(second, 3)); /* to their ends */
	for (int i = 0; i < 5000 && __atomic_load_n(claim, __ATOMIC_ACQUIRE) != CALLTAP_RING_FREE; i++)
		usleep(1000);
	assert_int_equal(__atomic_load_n(claim, __ATOMIC_ACQUIRE), CALLTAP_RING_FREE);
	assert_int_equal(bench->share->arenas[2].arena->state[0], CALLTAP_RING_OUT);
	if (!getenv("MESON_EXE_WRAPPER"))		       /* QEMU's user mode ignores MADV_REMOVE */
		assert_int_equal(sub_at(first, 1)->number, 0); /* the sub-buffer's memory is given back */
	finish(bench);
	assert_int_equal(bench->result.records, (3 + 3 + 3 + 2) * RECORDS);
	assert_int_equal(bench->instance.thread_count, 2);
	assert_int_equal(bench->instance.threads[0].next_number, 9);
	assert_true(bench->instance.threads[0].row.start_ticks == 1000000);
	assert_true(bench->instance.threads[0].row.end_ticks >= 3000000);
	bench_destroy(bench);
}

/* The drainer gives losses and waits behind a thread's last record to that thread, not to the ring's next owner. */
static void losses_are_those_of_who_had_them(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_ring *ring = add_owned(bench, 7, 1000000, CALLTAP_RING_CLAIMED + (uint32_t)gettid());

	own(ring, 0, 2);
	ring->lost = 30; /* two of these by the second, which has not told them either */
	ring->wait_ticks = 900;
	ring->owner = 8;
	ring->claim_ticks = 2000000;
	ring->lost_before = 28;
	ring->wait_before = 800;
	own(ring, 2, 4);
	for (uint64_t number = 2; number < 4; number++) {
		sub_at(ring, number)->lost_before = 28;
		sub_at(ring, number)->wait_before = 800;
	}
	assert_int_equal(drain_start(&bench->session), 0);
	assert_true(is_released(ring, 3));
	/* A third has claimed the ring, and lost, and opened nothing. */
	ring->lost_before = 30;
	ring->wait_before = 900;
	__atomic_store_n(&ring->owner, 9, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->lost, 35, __ATOMIC_RELEASE);
	finish(bench);
	assert_int_equal(bench->instance.thread_count, 2);
	assert_int_equal(bench->instance.threads[0].row.lost, 28);
	assert_int_equal(bench->instance.threads[0].row.wait_ticks, 800);
	assert_int_equal(bench->instance.threads[1].row.lost, 2);
	assert_int_equal(bench->instance.threads[1].row.wait_ticks, 100);
	bench_destroy(bench);
}

/* A hostile target lies about the rings that it left: the reading is bounded, and only the target's own trace is
 * spoilt. */
static void left_rings_that_lie_do_no_harm(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_DROP);

	for (int i = 0; i < 20; i++) {
		struct calltap_ring *ring = add_owned(bench, 7 | CALLTAP_OWNER_MOVED, 5, CALLTAP_RING_LEFT);

		own(ring, 0, 2);
		ring->opened = i % 2 ? UINT64_MAX : 2;
	}
	assert_int_equal(drain_start(&bench->session), 0);
	usleep(20000);
	finish(bench);
	assert_int_equal(bench->instance.thread_count, 1);
	bench_destroy(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(left_sub_buffers_are_taken),
		cmocka_unit_test(what_lies_in_the_rings_is_counted),
		cmocka_unit_test(overwritten_sub_buffers_are_counted),
		cmocka_unit_test(losses_are_counted_once),
		cmocka_unit_test(scribbled_counters_do_no_harm),
		cmocka_unit_test(rings_of_ended_threads_are_freed),
		cmocka_unit_test(a_shortage_is_answered_once),
		cmocka_unit_test(a_low_reserve_is_filled_up),
		cmocka_unit_test(arenas_have_an_end),
		cmocka_unit_test(who_does_not_read_is_given_up),
		cmocka_unit_test(who_is_hung_up_on_is_told_that_we_read_on),
		cmocka_unit_test(a_thread_that_has_gone_on_is_one),
		cmocka_unit_test(losses_are_those_of_who_had_them),
		cmocka_unit_test(left_rings_that_lie_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
