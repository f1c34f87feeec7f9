/*
 * Numbers that programs add up by key: in the interpreter and compiled they are C's, and with threads, signals'
 * handlers in the middle of it, and forked processes nothing is missing.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/verify.h>
#include <host/values/counts.h>
#include <host/values/fetch.h>
#include <host/values/sum.h>
#include <probe/maps.h>

#include "counting.h"
#include "storm.h"

enum { KEYS = 500, THREADS = 4, CALLS = 40000, PROCESSES = 3 };

static struct fetch fetch;

/* The text's last field is added up by the others. */
static void compile(const char *text)
{
	const struct buckets none = {.kind = BUCKET_NONE};
	struct calltap_diag diag = {0};
	struct spec spec;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, text, false, &diag), 0);
	spec.count--;
	spec.sums = true;
	fetch_compile_count(&fetch, FETCH_COUNT, &spec, FETCH_REGISTERS_X86_64, NULL, &none);
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
	counting_load(&fetch);
}

static int clear(void **state)
{
	if (counting_map)
		munmap(counting_map, sizeof(*counting_map));
	counting_map = NULL;
	counting_lane = 0;
	return 0;
}

/* Of a key's numbers. */
static struct tallied_sum read_one(uint32_t key)
{
	const uint64_t words[CALLTAP_MAP_KEY_WORDS] = {(uint64_t)key << 32 | 5};
	uint32_t number = map_find(counting_map, words, 8);
	struct tallied_sum sum;

	assert_true(number);
	sum_read(&sum, counting_map, number - 1);
	return sum;
}

static uint64_t both(uint64_t key, uint64_t number)
{
	const struct calltap_program_context context = {.arguments = {key, number}, .function = 5};
	uint64_t verdict = counting_interpret(&context);

	counting_lane++;
	assert_int_equal(verdict, counting_run(&context));
	return verdict;
}

static const uint64_t edges[] = {0,
				 1,
				 2,
				 127,
				 128,
				 255,
				 0x7fff,
				 0x8000,
				 0x7fffffff,
				 0x80000000,
				 UINT32_MAX,
				 INT64_MAX,
				 (uint64_t)1 << 63,
				 UINT64_MAX - 1,
				 UINT64_MAX};
enum { EDGES = sizeof(edges) / sizeof(edges[0]) };

/* The sum, the least and the largest of two numbers of a type, twice each. */
static void check_pair(unsigned bits, bool has_sign, uint64_t first, uint64_t second)
{
	static uint32_t key;
	uint64_t cut[2] = {first << (64 - bits), second << (64 - bits)}, number[2], flip = (uint64_t)has_sign << 63;
	struct tallied_sum sum;
	bool swap;

	key++;
	both(key, first);
	both(key, second);
	for (int i = 0; i < 2; i++)
		number[i] = has_sign ? (uint64_t)((int64_t)cut[i] >> (64 - bits)) : cut[i] >> (64 - bits);
	swap = has_sign ? (int64_t)number[0] > (int64_t)number[1] : number[0] > number[1];
	sum = read_one(key);
	assert_int_equal(sum.has_sign, has_sign);
	assert_int_equal(sum.count, 4);
	assert_int_equal(sum.sum, 2 * (number[0] + number[1]));
	assert_int_equal(~sum.least ^ flip, number[swap]);
	assert_int_equal(sum.most ^ flip, number[!swap]);
	assert_int_equal(sum.missed + sum.numberless, 0);
}

static void numbers_are_added_up(void **state)
{
	static const struct {
		const char *text;
		unsigned bits;
		bool has_sign;
	} types[] = {{"f:arg1:u32 arg2:u64", 64, false}, {"f:arg1:u32 arg2:s64", 64, true},
		     {"f:arg1:u32 arg2:u8", 8, false},	 {"f:arg1:u32 arg2:s16", 16, true},
		     {"f:arg1:u32 arg2:u32", 32, false}, {"f:arg1:u32 arg2:s32", 32, true}};

	for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++) {
		compile(types[type].text);
		for (size_t i = 0; i < EDGES; i++)
			for (size_t k = 0; k < EDGES; k++)
				check_pair(types[type].bits, types[type].has_sign, edges[i], edges[k]);
	}
}

static void what_cannot_be_read_is_no_number(void **state)
{
	struct tallied_sum sum;
	const int32_t number = -7;

	compile("f:arg1:u32 +0(arg2):s32");
	both(9, 0);
	both(9, (uintptr_t)&number);
	sum = read_one(9);
	assert_int_equal(sum.count, 2);
	assert_int_equal(sum.numberless, 2);
	assert_int_equal((int64_t)sum.sum, -14);
}

/* Without room for a key nothing is added up, and the call is one of the others. */
static void without_room_calls_are_others(void **state)
{
	struct tallies found;

	compile("f:arg1:u32 arg2:s32");
	for (uint32_t at = 0; at < CALLTAP_MAP_SLOTS; at++)
		counting_map->slots[at].state = CALLTAP_MAP_CLAIMED;
	both(1, 2);
	assert_int_equal(counts_read(&found, counting_map, COUNTS_SUMS), 0);
	assert_int_equal(found.count, 0);
	assert_int_equal(found.others, 2);
	free(found.list);
	free(found.frames);
	counting_absent = true;
	both(1, 2);
	counting_absent = false;
	assert_int_equal(counting_map->others, 2);
}

/* What C has added up, of all processes. */
static struct expected {
	uint64_t count;
	int64_t sum, least, most;
} * expected;

static void raise_to(int64_t *place, int64_t number, int sign)
{
	int64_t now = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (sign * number > sign * now &&
	       !__atomic_compare_exchange_n(place, &now, number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void count(uint32_t key, int32_t number)
{
	const struct calltap_program_context context = {.arguments = {key, (uint64_t)(int64_t)number}, .function = 5};

	assert_int_equal(counting_run(&context), CALLTAP_VERDICT_LEAVE_OUT);
	__atomic_fetch_add(&expected[key].count, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&expected[key].sum, number, __ATOMIC_RELAXED);
	raise_to(&expected[key].least, number, -1);
	raise_to(&expected[key].most, number, 1);
}

static void on_signal(int signal)
{
	static _Thread_local uint64_t seed;

	seed += (uint64_t)getpid();
	count(storm_draw(&seed) % KEYS, (int32_t)storm_draw(&seed) * (signal == SIGUSR1 ? 1 : -1));
}

static void *call(void *arg)
{
	uint64_t seed = (uintptr_t)arg + (uint64_t)getpid();

	/* Two threads of a lane: so they meet. */
	counting_lane = (uint32_t)(uintptr_t)arg / 2;
	for (int i = 0; i < CALLS; i++) {
		/* Numbers that grow: each is the largest so far. */
		count((uint32_t)i % KEYS, i % 3 ? i * (i % 2 ? 1 : -1) : (int32_t)storm_draw(&seed));
		if (i % 16 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

static void run_threads(void)
{
	storm_run(THREADS, call, on_signal);
}

static void check_all(void)
{
	const uint64_t flip = (uint64_t)1 << 63;
	uint64_t missed = 0;
	struct tallies found;

	assert_int_equal(counts_read(&found, counting_map, COUNTS_SUMS), 0);
	assert_int_equal(found.others, 0);
	assert_int_equal(found.count, KEYS);
	for (size_t i = 0; i < found.count; i++) {
		const struct tallied_sum *sum = &found.list[i].sum;
		uint32_t key = (uint32_t)(found.list[i].key[0] >> 32);

		assert_true(key < KEYS);
		assert_int_equal(sum->count, expected[key].count);
		assert_int_equal((int64_t)sum->sum, expected[key].sum);
		missed += sum->missed;
		/* Each number that was not compared is told. */
		if (sum->missed)
			continue;
		assert_int_equal((int64_t)(~sum->least ^ flip), expected[key].least);
		assert_int_equal((int64_t)(sum->most ^ flip), expected[key].most);
	}
	/* 16 exchanges that fail in a row are rare, or all of this says nothing. */
	assert_true(missed < KEYS / 10);
	free(found.list);
	free(found.frames);
}

static void sums_are_exact(void **state)
{
	expected = mmap(NULL, KEYS * sizeof(*expected), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(expected != MAP_FAILED);
	for (int i = 0; i < KEYS; i++)
		expected[i] = (struct expected){.least = INT64_MAX, .most = INT64_MIN};
	compile("f:arg1:u32 arg2:s32");
	storm_processes(PROCESSES, run_threads);
	check_all();
	munmap(expected, KEYS * sizeof(*expected));
}

/* Whatever another process writes there, programs end, and stay in the map. */
static void *scribble(void *stop)
{
	uint64_t seed = 3, *words = (uint64_t *)counting_map->sums;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		size_t at = ((size_t)storm_draw(&seed) << 31 | storm_draw(&seed)) %
			    (sizeof(counting_map->sums) / sizeof(*words));

		__atomic_store_n(&words[at], (uint64_t)storm_draw(&seed) << 32 | storm_draw(&seed), __ATOMIC_RELAXED);
		at = storm_draw(&seed) % CALLTAP_MAP_SLOTS;
		__atomic_store_n(&counting_map->slots[at].state, storm_draw(&seed), __ATOMIC_RELAXED);
	}
	return NULL;
}

static void junk_does_no_harm(void **state)
{
	bool stop = false;
	pthread_t thread;
	struct tallies found;

	compile("f:arg1:u32 arg2:s32");
	assert_int_equal(pthread_create(&thread, NULL, scribble, &stop), 0);
	for (uint32_t i = 0; i < 200000; i++) {
		const struct calltap_program_context context = {.arguments = {i % KEYS, i}, .function = 5};

		counting_lane = i;
		assert_int_equal(counting_run(&context), CALLTAP_VERDICT_LEAVE_OUT);
	}
	assert_int_equal(counts_read(&found, counting_map, COUNTS_SUMS), 0);
	free(found.list);
	free(found.frames);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(numbers_are_added_up, clear),
		cmocka_unit_test_setup(what_cannot_be_read_is_no_number, clear),
		cmocka_unit_test_setup(without_room_calls_are_others, clear),
		cmocka_unit_test_setup(sums_are_exact, clear),
		cmocka_unit_test_setup(junk_does_no_harm, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
