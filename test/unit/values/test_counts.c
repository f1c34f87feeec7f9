/*
 * Counting by key in shared memory: sums are exact with threads, signals' handlers in the middle of it, and forked
 * processes; what has no room is counted as that; and whatever the map holds, nobody leaves it or goes on for ever.
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

enum { KEYS = 3000, THREADS = 6, CALLS = 60000, PROCESSES = 3, ROUNDS = 200 };

static struct calltap_map *map;
static uint64_t *handled; /* by key, of all processes: what signals' handlers have counted */

static int setup(void **state)
{
	map = storm_map();
	handled = storm_shared(KEYS * sizeof(*handled));
	return 0;
}

static int teardown(void **state)
{
	storm_map_free(map);
	munmap(handled, KEYS * sizeof(*handled));
	return 0;
}

/* A key of 4 to 120 bytes. */
static uint32_t make_key(uint64_t key[CALLTAP_MAP_KEY_WORDS], uint32_t number)
{
	uint32_t size = 4 + number * 7 % (CALLTAP_MAP_KEY - 3);

	memset(key, 0, CALLTAP_MAP_KEY);
	memset(key, (int)(number % 251), size);
	memcpy(key, &number, sizeof(number));
	return size;
}

static void count(uint32_t number, uint32_t lane)
{
	uint64_t key[CALLTAP_MAP_KEY_WORDS];
	uint32_t size = make_key(key, number);

	map_count(map, key, size, lane);
}

static void on_signal(int signal)
{
	static uint64_t seed = 7;
	uint32_t number = storm_draw(&seed) % KEYS;

	count(number, (uint32_t)signal);
	__atomic_fetch_add(&handled[number], 1, __ATOMIC_RELAXED);
}

static void *call(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (int i = 0; i < CALLS; i++) {
		count((uint32_t)i % KEYS, (uint32_t)(uintptr_t)arg);
		/* New keys are where it matters. */
		if (i % 16 == 0)
			raise(SIGUSR1);
	}
	return (void *)(uintptr_t)storm_draw(&seed);
}

static void run_threads(void)
{
	storm_run(THREADS, call, on_signal);
}

enum { DEEP = 24, FAR = 0x1000 };

/* The return address at the depth of a stack; neighbours have their outer frames in common. */
static uint64_t address_at(uint32_t stack, uint32_t depth)
{
	return FAR + (stack >> (depth / 3)) * DEEP + depth;
}

static uint32_t find_stack(uint32_t stack)
{
	struct calltap_map_frame frame = {.pid = 7, .address = 8};
	uint32_t number = map_frame(map, &frame);

	for (uint32_t depth = DEEP; number && depth-- > 0;) {
		frame = (struct calltap_map_frame){.outer = number, .address = address_at(stack, depth)};
		number = map_frame(map, &frame);
	}
	return number;
}

/* Count by the stack's number, as programs do. */
static void count_stack(uint32_t stack, uint32_t lane)
{
	uint64_t key[CALLTAP_MAP_KEY_WORDS] = {0};

	key[0] = (uint64_t)find_stack(stack) << 32 | 5;
	assert_true(key[0] >> 32);
	map_count(map, key, 8, lane);
}

static uint64_t *stacks_handled;

static void on_signal_in_stack(int signal)
{
	static uint64_t seed = 9;
	uint32_t stack = storm_draw(&seed) % KEYS;

	count_stack(stack, (uint32_t)signal);
	__atomic_fetch_add(&stacks_handled[stack], 1, __ATOMIC_RELAXED);
}

static void *call_from_stacks(void *arg)
{
	for (uint32_t i = 0; i < 2 * KEYS; i++) {
		count_stack(i % KEYS, (uint32_t)(uintptr_t)arg);
		if (i % 16 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

static uint32_t stack_of(const struct tallies *found, uint32_t number)
{
	uint32_t stack = 0;

	for (uint32_t depth = 0; depth < DEEP; depth++) {
		assert_in_range(number, 1, CALLTAP_MAP_SLOTS);
		if (!depth)
			stack = (uint32_t)((found->frames[number].address - FAR) / DEEP);
		assert_int_equal(found->frames[number].address, address_at(stack, depth));
		assert_int_equal(found->frames[number].pid, 0);
		number = found->frames[number].outer;
	}
	assert_int_equal(found->frames[number].outer, 0);
	assert_int_equal(found->frames[number].pid, 7);
	assert_int_equal(found->frames[number].address, 8);
	return stack;
}

/* Each number leads to the frames that it was made of, and sums by stack are exact, though a stack may have several. */
static void stacks_are_whole(void **state)
{
	uint64_t *sums = calloc(KEYS, sizeof(*sums));
	pthread_t threads[THREADS];
	struct tallies found;
	pid_t child;

	assert_non_null(sums);
	stacks_handled = storm_shared(KEYS * sizeof(*stacks_handled));
	signal(SIGUSR1, on_signal_in_stack);
	child = fork();
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_from_stacks, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(counts_read(&found, map, COUNTS_FIRST), 0);
	assert_int_equal(found.others, 0);
	for (size_t i = 0; i < found.count; i++)
		sums[stack_of(&found, (uint32_t)(found.list[i].key[0] >> 32))] += found.list[i].count;
	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_equal(sums[i], 2 * 2 * THREADS + stacks_handled[i]);
	munmap(stacks_handled, KEYS * sizeof(*stacks_handled));
	free(found.list);
	free(found.frames);
	free(sums);
}

static void sums_are_exact(void **state)
{
	struct tallies found;

	storm_processes(PROCESSES, run_threads);
	assert_int_equal(counts_read(&found, map, COUNTS_FIRST), 0);
	assert_int_equal(map->others, 0);
	assert_int_equal(found.count, KEYS);
	for (size_t i = 0; i < found.count; i++) {
		uint64_t key[CALLTAP_MAP_KEY_WORDS];
		uint32_t number;

		memcpy(&number, found.list[i].key, sizeof(number));
		assert_true(number < KEYS);
		assert_int_equal(make_key(key, number), found.list[i].size);
		assert_memory_equal(key, found.list[i].key, sizeof(key));
		assert_int_equal(found.list[i].count, PROCESSES * THREADS * (CALLS / KEYS) + handled[number]);
		assert_true(!i || found.list[i - 1].count >= found.list[i].count);
	}
	free(found.list);
	free(found.frames);
}

static uint64_t sum(const struct tallies *found)
{
	uint64_t all = 0;

	for (size_t i = 0; i < found->count; i++)
		all += found->list[i].count;
	return all;
}

static void what_has_no_room_is_counted(void **state)
{
	const uint32_t keys = 2 * CALLTAP_MAP_SLOTS;
	uint64_t key[CALLTAP_MAP_KEY_WORDS] = {0};
	struct tallies found;

	map_count(map, key, CALLTAP_MAP_KEY + 1, 0);
	assert_int_equal(map->others, 1);
	for (uint32_t i = 0; i < keys; i++)
		count(i, i);
	assert_int_equal(counts_read(&found, map, COUNTS_FIRST), 0);
	assert_true(found.count > CALLTAP_MAP_SLOTS * 9 / 10 && found.count <= CALLTAP_MAP_SLOTS);
	assert_int_equal(sum(&found) + map->others, keys + 1);
	free(found.list);
	free(found.frames);
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
	for (int round = 0; round < ROUNDS; round++) {
		struct tallies found;

		for (uint32_t i = 0; i < KEYS; i++)
			count(i, i * 0x9e3779b9u);
		if (round % 20)
			continue;
		assert_int_equal(counts_read(&found, map, COUNTS_FIRST), 0);
		assert_true(found.count <= CALLTAP_MAP_SLOTS);
		for (size_t i = 0; i < found.count; i++)
			assert_true(found.list[i].size <= CALLTAP_MAP_KEY);
		free(found.list);
		free(found.frames);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

/* One that is claimed for ever, by a thread that was killed, costs its place and no more. */
static void a_claim_that_stays_is_passed(void **state)
{
	struct tallies found;

	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at += 2)
		map->slots[at].state = CALLTAP_MAP_CLAIMED;
	for (uint32_t i = 0; i < KEYS; i++)
		count(i, i);
	assert_int_equal(counts_read(&found, map, COUNTS_FIRST), 0);
	assert_int_equal(found.count, KEYS);
	assert_int_equal(sum(&found), KEYS);
	free(found.list);
	free(found.frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sums_are_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(stacks_are_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_no_room_is_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(junk_does_no_harm, setup, teardown),
		cmocka_unit_test_setup_teardown(a_claim_that_stays_is_passed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
