/* How threads come by a ring: a free one, a dead thread's, one of a new arena, or none, and how long they wait for it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "support.h"

#define RETRY 1024 /* probe/thread.c: calls between tries of a thread that got none */

/* A try of another thread than the test's, and its id. */
struct
try {
	bool got;
	uint32_t tid;
	uint32_t tries; /* calls that got none before one looked again */
};

static void *attach(void *arg)
{
	struct try *try = arg;

	try->tid = (uint32_t)syscall(SYS_gettid);
	try->got = probe_thread_attach(&probe_thread);
	return NULL;
}

static struct try in_a_thread(void *(*function)(void *))
{
	struct try try = {0};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, &try), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	while (!syscall(SYS_tgkill, getpid(), try.tid, 0)) /* the kernel has it a little longer than libc */
		usleep(100);
	return try;
}

/* Make an arena of one ring; taken: the test's own thread holds it. */
static void start(struct fake_arena *fake, enum calltap_mode mode, bool taken)
{
	fake_arena_create(fake, mode, 1, 4096, 2);
	fake_start(fake);
	if (taken)
		fake->arena->state[0] = CALLTAP_RING_CLAIMED + (uint32_t)syscall(SYS_gettid);
}

static void end(struct fake_arena *fake)
{
	fake_stop();
	fake_arena_destroy(fake);
}

static void a_free_ring_is_taken(void **state)
{
	struct fake_arena fake;
	struct try first, second;

	start(&fake, CALLTAP_MODE_DROP, false);
	first = in_a_thread(attach);
	assert_true(first.got);
	assert_int_equal(fake.arena->state[0], CALLTAP_RING_CLAIMED + first.tid);
	assert_int_equal(fake_ring(&fake, 0)->tid, first.tid);
	second = in_a_thread(attach); /* the first one has ended without a word */
	assert_true(second.got);
	assert_int_equal(fake_ring(&fake, 0)->tid, second.tid);
	assert_int_equal(fake_ring(&fake, 0)->owner, 2);
	end(&fake);
}

static void *attach_again(void *arg)
{
	struct try *try = arg;
	uint32_t starved = probe_context.wiped->sets[0].arenas[0]->starved;

	try->tid = (uint32_t)syscall(SYS_gettid);
	while (!probe_thread_attach(&probe_thread) && probe_context.wiped->sets[0].arenas[0]->starved < starved + 2)
		try->tries++;
	return NULL;
}

/* A thread without a ring must not make a system call at each call of the program. */
static void who_gets_none_does_not_ask_at_each_call(void **state)
{
	struct fake_arena fake;

	start(&fake, CALLTAP_MODE_DROP, true);
	assert_false(in_a_thread(attach).got);
	assert_int_equal(fake.arena->starved, 1);
	assert_int_equal(in_a_thread(attach_again).tries, 1 + RETRY);
	end(&fake);
}

/* The tool may be stopped: one thread waits for it once, the next ones do not. */
static void waiting_in_vain_is_done_once(void **state)
{
	struct fake_arena fake;
	uint32_t asked;

	start(&fake, CALLTAP_MODE_BLOCK, true);
	assert_false(in_a_thread(attach).got);
	asked = fake.arena->starved;
	assert_true(asked > 1);
	assert_false(in_a_thread(attach).got);
	assert_int_equal(fake.arena->starved, asked + 1);
	end(&fake);
}

static void nobody_waits_for_a_tool_that_has_gone(void **state)
{
	struct fake_arena fake;

	start(&fake, CALLTAP_MODE_BLOCK, true);
	probe_context.shared.reader_gone = 1;
	assert_false(in_a_thread(attach).got);
	assert_int_equal(fake.arena->starved, 0);
	end(&fake);
}

static void *add_arena(void *more)
{
	struct probe_wiped *wiped = probe_context.wiped;

	while (!__atomic_load_n(&wiped->sets[0].arenas[0]->starved, __ATOMIC_ACQUIRE))
		usleep(100);
	wiped->sets[0].arenas[1] = more;
	__atomic_store_n(&wiped->sets[0].arena_count, 2, __ATOMIC_RELEASE);
	syscall(SYS_futex, &wiped->sets[0].arena_count, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
	return NULL;
}

static void a_new_arena_ends_the_wait(void **state)
{
	struct fake_arena fake, more;
	pthread_t tool;
	struct try try;

	start(&fake, CALLTAP_MODE_BLOCK, true);
	fake_arena_create(&more, CALLTAP_MODE_BLOCK, 1, 4096, 2);
	assert_int_equal(pthread_create(&tool, NULL, add_arena, more.arena), 0);
	try = in_a_thread(attach);
	assert_int_equal(pthread_join(tool, NULL), 0);
	assert_true(try.got);
	assert_int_equal(more.arena->state[0], CALLTAP_RING_CLAIMED + try.tid);
	end(&fake);
	fake_arena_destroy(&more);
}

/* A vfork child runs on its parent's memory: what it took would be claimed for good. */
static void another_process_takes_none(void **state)
{
	struct fake_arena fake;

	start(&fake, CALLTAP_MODE_DROP, false);
	probe_context.wiped->pid++;
	assert_false(in_a_thread(attach).got);
	assert_int_equal(fake.arena->state[0], CALLTAP_RING_FREE);
	end(&fake);
}

/* Two arenas, the first of which is retired once its ring is taken; a thread that records four sub-buffers' worth. */
static struct calltap_ring *moving_from;
static struct ring_writer *moving_writers[2];

static void *record(void *arg)
{
	struct try *try = arg;

	try->tid = (uint32_t)syscall(SYS_gettid);
	try->got = probe_record(&probe_thread, CALLTAP_REC_ENTRY, 1, 1, 0);
	if (!try->got)
		try->got =
			probe_thread_attach(&probe_thread) && probe_record(&probe_thread, CALLTAP_REC_ENTRY, 1, 1, 0);
	moving_writers[0] = probe_thread.writer;
	__atomic_store_n(&moving_from->retired, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 1500 && try->got; i++)
		try->got = probe_record(&probe_thread, CALLTAP_REC_ENTRY, 1, 1, 0);
	moving_writers[1] = probe_thread.writer;
	return NULL;
}

static struct try move(struct fake_arena *from, struct fake_arena *to, uint32_t sub_size)
{
	fake_arena_create(from, CALLTAP_MODE_DROP, 1, 4096, 8);
	fake_arena_create(to, CALLTAP_MODE_DROP, 1, sub_size, 8);
	fake_start(from);
	probe_context.wiped->sets[0].arenas[1] = to->arena;
	probe_context.wiped->sets[0].arena_count = 2;
	moving_from = fake_ring(from, 0);
	return in_a_thread(record);
}

static void end_move(struct fake_arena *from, struct fake_arena *to)
{
	end(from);
	fake_arena_destroy(to);
}

static void a_retired_ring_is_left(void **state)
{
	struct fake_arena from, to;
	struct try try = move(&from, &to, 4096);

	assert_true(try.got);
	assert_int_equal(from.arena->state[0], CALLTAP_RING_LEFT);
	assert_int_equal(to.arena->state[0], CALLTAP_RING_CLAIMED + try.tid);
	assert_int_equal(fake_ring(&from, 0)->opened, 1);
	assert_int_equal(fake_ring(&to, 0)->opened, 2);
	assert_int_equal(fake_ring(&to, 0)->owner, fake_ring(&from, 0)->owner | CALLTAP_OWNER_MOVED);
	assert_int_equal(fake_sub(fake_ring(&to, 0), 0)->owner, fake_ring(&to, 0)->owner);
	assert_int_equal(fake_sub(fake_ring(&to, 0), 0)->tid, try.tid);
	assert_ptr_equal(moving_writers[0],
			 moving_writers[1]); /* an interrupted function may be working on the writer */
	/* The ring that was left comes with another writer than the one that is in use. */
	fake_ring(&from, 0)->retired = 0;
	from.arena->state[0] = CALLTAP_RING_FREE;
	assert_true(in_a_thread(record).got);
	assert_ptr_not_equal(moving_writers[0], &probe_context.wiped->sets[0].writers[0]);
	end_move(&from, &to);
}

static void who_has_no_other_stays_and_asks(void **state)
{
	struct fake_arena from, to;
	struct try try;

	fake_arena_create(&from, CALLTAP_MODE_DROP, 1, 4096, 8);
	fake_start(&from);
	moving_from = fake_ring(&from, 0);
	try = in_a_thread(record);
	assert_true(try.got);
	assert_int_equal(from.arena->state[0], CALLTAP_RING_CLAIMED + try.tid);
	assert_int_equal(fake_ring(&from, 0)->opened, 3);
	assert_int_equal(from.arena->starved, 2);
	end(&from);
	try = move(&from, &to, 8192); /* sub-buffers of another size: not good for who was interrupted */
	assert_true(try.got);
	assert_int_equal(from.arena->state[0], CALLTAP_RING_CLAIMED + try.tid);
	assert_int_equal(to.arena->state[0], CALLTAP_RING_FREE);
	end_move(&from, &to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_free_ring_is_taken),
		cmocka_unit_test(who_gets_none_does_not_ask_at_each_call),
		cmocka_unit_test(waiting_in_vain_is_done_once),
		cmocka_unit_test(nobody_waits_for_a_tool_that_has_gone),
		cmocka_unit_test(a_new_arena_ends_the_wait),
		cmocka_unit_test(another_process_takes_none),
		cmocka_unit_test(a_retired_ring_is_left),
		cmocka_unit_test(who_has_no_other_stays_and_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
