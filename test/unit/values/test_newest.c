/*
 * Counting by the newest keys in shared memory: with threads, signals' handlers in the middle of it, forked processes,
 * and processes that are killed, each call is one of its key's or of the others', never of another key's; the newest
 * keys are there; and whatever the map holds, nobody leaves it or goes on for ever.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <host/values/counts.h>
#include <probe/maps.h>

#include "storm.h"

/* One slot in so many is to be had, so that keys are in each other's way; more keys than such slots. */
enum { APART = 8, KEYS = 16000, COMMON = KEYS / 100, THREADS = 4, CALLS = 30000, PROCESSES = 3, KILLS = 20 };

static struct calltap_map *map;
static uint64_t *called; /* by key, of all processes */

static int setup(void **state)
{
	map = storm_map();
	called = storm_shared(KEYS * sizeof(*called));
	return 0;
}

static int teardown(void **state)
{
	storm_map_free(map);
	munmap(called, KEYS * sizeof(*called));
	return 0;
}

/* A key of 4 to 120 bytes, all of which tell the number: so a mixture of two keys is none. */
static uint32_t make_key(uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t number)
{
	uint32_t size = 4 + number * 7 % (CALLTAP_MAP_KEY - 3);

	memset(key, 0, CALLTAP_MAP_KEY);
	for (uint32_t at = 0; at + 4 <= size; at += 4)
		memcpy((char *)key + at, &number, sizeof(number));
	return size;
}

static void count(uint32_t number, uint32_t lane)
{
	uint64_t key[CALLTAP_MAP_KEY_WORDS];
	uint32_t size = make_key(key, number);

	map_count_newest(map, key, size, lane);
}

static void count_one(uint32_t number, uint32_t lane)
{
	__atomic_fetch_add(&called[number], 1, __ATOMIC_RELAXED);
	count(number, lane);
}

static uint32_t number_of(const struct tallied *row)
{
	uint64_t key[CALLTAP_MAP_KEY_WORDS];
	uint32_t number;

	memcpy(&number, row->key, sizeof(number));
	assert_int_equal(make_key(key, number), row->size);
	assert_memory_equal(key, row->key, sizeof(key));
	return number;
}

static struct tallies read_all(void)
{
	struct tallies found;

	assert_int_equal(counts_read(&found, map, COUNTS_NEWEST), 0);
	return found;
}

static void drop(struct tallies *found)
{
	free(found->list);
	free(found->frames);
}

/* All calls that are in the map. */
static uint64_t total(void)
{
	struct tallies found = read_all();
	uint64_t all = found.others;

	for (size_t i = 0; i < found.count; i++)
		all += found.list[i].count;
	drop(&found);
	return all;
}

/*
 * Every second call's key comes often: calls add to counts that other calls are about to take away.  Signals' calls do
 * so, too: else it would be up to the machine how many of all calls have such a key, since a slow one runs hundreds of
 * signals' handlers for each call of the threads' own.
 */
static uint32_t draw_key(uint64_t *seed)
{
	uint32_t number = storm_draw(seed);

	return number / KEYS % (number % 2 ? KEYS : COMMON);
}

static void on_signal(int signal)
{
	static _Thread_local uint64_t seed;

	seed += (uint64_t)getpid();
	count_one(draw_key(&seed), (uint32_t)signal);
}

static void *call(void *arg)
{
	uint64_t seed = (uintptr_t)arg + (uint64_t)getpid();

	for (int i = 0; i < CALLS; i++) {
		count_one(draw_key(&seed), (uint32_t)(uintptr_t)arg);
		if (i % 16 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

static void run_threads(void)
{
	storm_run(THREADS, call, on_signal);
}

/* Leave few slots: the others stay claimed. */
static void make_scarce(void)
{
	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at++)
		if (at % APART)
			map->slots[at].state = CALLTAP_MAP_CLAIMED;
}

static void no_call_is_another_keys(void **state)
{
	uint64_t all = 0, kept = 0;
	struct tallies found;

	make_scarce();
	storm_processes(PROCESSES, run_threads);
	for (int i = 0; i < KEYS; i++)
		all += called[i];
	assert_true(all >= (uint64_t)PROCESSES * THREADS * CALLS);
	assert_int_equal(total(), all);
	found = read_all();
	assert_true(found.count > CALLTAP_MAP_SLOTS / APART / 2 && found.count <= CALLTAP_MAP_SLOTS / APART);
	for (size_t i = 0; i < found.count; i++) {
		uint32_t number = number_of(&found.list[i]);

		assert_true(number < KEYS && found.list[i].count <= called[number]);
		kept += found.list[i].count;
	}
	/* Slots were taken a great many times.  The keys that come often have kept their slots. */
	assert_true(map->taken > KEYS);
	assert_true(found.others > all / 10);
	assert_true(kept > all / 3);
	drop(&found);
}

/* Keys of one slot, each of which takes it from the others. */
enum { RIVALS = 4, SIGNALS = 3000, WINDOW = CALLTAP_MAP_PROBES };

static uint32_t rivals[RIVALS], arena;
static volatile sig_atomic_t came;

static uint32_t slot_of(uint32_t number)
{
	uint32_t at = 0;

	count(number, 0);
	while ((uint32_t)map->slots[at].key[0] != number || map->slots[at].state == CALLTAP_MAP_CLAIMED)
		at += WINDOW;
	return at;
}

/* Slots that are not claimed are so far apart that each key has one. */
static void find_rivals(void)
{
	uint32_t found = 0;

	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at++)
		if (at % WINDOW)
			map->slots[at].state = CALLTAP_MAP_CLAIMED;
	arena = slot_of(1);
	rivals[found++] = 1;
	for (uint32_t number = 2; found < RIVALS; number++)
		if (slot_of(number) == arena)
			rivals[found++] = number;
}

static void take_it(int signal)
{
	count(rivals[1 + came++ % (RIVALS - 1)], (uint32_t)signal * 0);
}

/* A handler takes the slot between any two instructions of who counts there: its key has come once since, not twice. */
static void no_slot_is_another_keys_meanwhile(void **state)
{
	struct itimerspec often = {{0, 30000}, {0, 30000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	uint64_t calls = 0, wrong = 0, before;
	struct tallies found;
	timer_t timer;

	find_rivals();
	before = total();
	signal(SIGUSR2, take_it);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
	for (; came < SIGNALS; calls++) {
		const struct calltap_map_slot *slot = &map->slots[arena];
		uint64_t now, key, number;

		count(rivals[0], 0);
		now = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
		key = __atomic_load_n(&slot->key[0], __ATOMIC_RELAXED);
		number = __atomic_load_n(&map->counts[0][arena], __ATOMIC_RELAXED) & CALLTAP_MAP_COUNT_MOST;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if ((uint32_t)key != rivals[0] && __atomic_load_n(&slot->state, __ATOMIC_RELAXED) == now)
			wrong += number != 1;
	}
	timer_delete(timer);
	signal(SIGUSR2, SIG_IGN);
	assert_int_equal(wrong, 0);
	assert_int_equal(total(), before + calls + (uint64_t)came);
	found = read_all();
	assert_true(found.count > 0 && found.others > calls / 2);
	drop(&found);
}

static void with_room_all_are_exact(void **state)
{
	struct tallies found;
	uint64_t all = 0;

	run_threads();
	found = read_all();
	assert_int_equal(found.others, 0);
	for (size_t i = 0; i < found.count; i++) {
		assert_int_equal(found.list[i].count, called[number_of(&found.list[i])]);
		all += found.list[i].count;
	}
	for (int i = 0; i < KEYS; i++)
		all -= called[i];
	assert_int_equal(all, 0);
	drop(&found);
}

static void the_newest_are_there(void **state)
{
	enum { MANY = 300000, NEWEST = 20000, FAVOURITE = MANY + 1, OFTEN = 1000 };
	bool *there = calloc(MANY, sizeof(*there));
	uint64_t favourite = 0, all = 0;
	struct tallies found;

	assert_non_null(there);
	for (uint32_t i = 0; i < MANY; i++) {
		count(i, i);
		if (i % OFTEN == 0)
			count(FAVOURITE, i);
	}
	found = read_all();
	for (size_t i = 0; i < found.count; i++) {
		uint32_t number = number_of(&found.list[i]);

		all += found.list[i].count;
		if (number == FAVOURITE) {
			favourite = found.list[i].count;
			continue;
		}
		assert_int_equal(found.list[i].count, 1);
		there[number] = true;
	}
	/* One that comes again and again is not old. */
	assert_int_equal(favourite, MANY / OFTEN);
	for (uint32_t i = MANY - NEWEST; i < MANY; i++)
		assert_true(there[i]);
	assert_int_equal(all + found.others, MANY + MANY / OFTEN);
	drop(&found);
	free(there);
}

/* Who is killed at any instruction takes no call of anybody else along. */
static void who_is_killed_harms_nobody(void **state)
{
	make_scarce();
	for (int i = 0; i < KILLS; i++) {
		const struct timespec little = {0, 2000000 + i * 100003};
		uint64_t before;
		pid_t child = fork();

		if (!child) {
			for (uint64_t seed = (uint64_t)i;;)
				count(storm_draw(&seed) % KEYS, (uint32_t)seed);
		}
		nanosleep(&little, NULL);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		before = total();
		for (uint32_t k = 0; k < KEYS; k++)
			count(k, k);
		assert_int_equal(total(), before + KEYS);
	}
}

/* What a slot's taker had yet to move when it was killed is of the others. */
static void counts_of_a_slot_in_between_are_of_the_others(void **state)
{
	struct tallies found;

	count(1, 3);
	count(1, 4);
	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at++)
		if (map->slots[at].state)
			map->slots[at].state = (uint64_t)1 << CALLTAP_MAP_GENERATION_AT | CALLTAP_MAP_CLAIMED;
	count(1, 3);
	found = read_all();
	assert_int_equal(found.count, 1);
	assert_int_equal(found.list[0].count, 1);
	assert_int_equal(found.others, 2);
	drop(&found);
}

/* A count that is full takes no more, and the generation above it stays. */
static void a_full_count_is_full(void **state)
{
	struct tallies found;

	count(1, 3);
	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at++)
		if (map->slots[at].state)
			map->counts[3][at] = CALLTAP_MAP_COUNT_MOST - 1;
	for (int i = 0; i < 3; i++)
		count(1, 3);
	found = read_all();
	assert_int_equal(found.count, 1);
	assert_int_equal(found.list[0].count, CALLTAP_MAP_COUNT_MOST);
	assert_int_equal(found.others, 2);
	drop(&found);
}

/* The other processes of a session may write there what they like. */
static void *scribble(void *stop)
{
	uint64_t seed = 3, *words = (uint64_t *)map;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		uint64_t word = (uint64_t)storm_draw(&seed) << 32 | storm_draw(&seed);
		size_t at = ((size_t)storm_draw(&seed) << 31 | storm_draw(&seed)) % (sizeof(*map) / sizeof(*words));

		/* States above all, of all kinds and sizes. */
		if (word & 1)
			at = (size_t)((uint64_t *)&map->slots[at % CALLTAP_MAP_SLOTS].state - words);
		__atomic_store_n(&words[at], word >> 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void junk_does_no_harm(void **state)
{
	bool stop = false;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, scribble, &stop), 0);
	for (uint32_t i = 0; i < 600000; i++)
		count(i % (10 * KEYS), i * 0x9e3779b9u);
	for (int i = 0; i < 5; i++) {
		struct tallies found = read_all();

		assert_true(found.count <= CALLTAP_MAP_SLOTS);
		for (size_t k = 0; k < found.count; k++)
			assert_true(found.list[k].size <= CALLTAP_MAP_KEY);
		drop(&found);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_call_is_another_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(no_slot_is_another_keys_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(with_room_all_are_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(the_newest_are_there, setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_killed_harms_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(counts_of_a_slot_in_between_are_of_the_others, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_count_is_full, setup, teardown),
		cmocka_unit_test_setup_teardown(junk_does_no_harm, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
