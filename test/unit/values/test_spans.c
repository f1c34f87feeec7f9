/*
 * Spans in shared memory: with threads, signals' handlers in the middle of it, and forked processes, each end finds
 * what its own beginning has left, and each beginning is told of once.  Programs that begin and end spans, in the
 * interpreter and compiled.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/verify.h>
#include <host/values/bucket.h>
#include <host/values/counts.h>
#include <host/values/fetch.h>
#include <probe/keys.h>
#include <probe/maps.h>

#include "counting.h"
#include "storm.h"

enum { KEYS = 24, THREADS = 4, CALLS = 30000, PROCESSES = 3 };

static struct calltap_map *map;

/* Of all processes. */
static struct tally {
	uint64_t begun, ended, wrong, lost;
} * tally;

/* Keys whose slots overlap, so that all that happens meets. */
static uint64_t near_keys[KEYS];

static void find_near_keys(void)
{
	uint32_t found = 0;

	for (uint64_t number = 1; found < KEYS; number++) {
		const uint64_t key[2] = {number, 7};

		if ((uint32_t)(keys_hash(key, 2, 0) >> 32) % CALLTAP_MAP_SPAN_SLOTS < 12)
			near_keys[found++] = number;
	}
}

static int setup(void **state)
{
	map = storm_map();
	tally = storm_shared(sizeof(*tally));
	find_near_keys();
	return 0;
}

static int teardown(void **state)
{
	storm_map_free(map);
	munmap(tally, sizeof(*tally));
	return 0;
}

static void add(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void begin(uint64_t number, uint64_t more)
{
	const uint64_t key[2] = {number, 7};

	if (map_begin(map, key, number << 32 | more))
		add(&tally->begun);
}

static void end(uint64_t number)
{
	const uint64_t key[2] = {number, 7};
	uint64_t value;

	if (!map_end(map, key, &value))
		return;
	add(&tally->ended);
	if (value >> 32 != number)
		add(&tally->wrong);
}

static void on_signal(int signal)
{
	static _Thread_local uint64_t seed;

	seed += (uint64_t)getpid();
	(storm_draw(&seed) % 2 ? begin(near_keys[storm_draw(&seed) % KEYS], storm_draw(&seed))
			       : end(near_keys[storm_draw(&seed) % KEYS]));
}

/* Keys that all share: a beginning is ended, or begun again, or open at the end, and nothing else. */
static void *share(void *arg)
{
	uint64_t seed = (uintptr_t)arg + (uint64_t)getpid();

	for (int i = 0; i < CALLS; i++) {
		begin(near_keys[storm_draw(&seed) % KEYS], (uint64_t)i);
		if (i % 16 == 0)
			raise(SIGUSR1);
		end(near_keys[storm_draw(&seed) % KEYS]);
	}
	return NULL;
}

static void run_shared(void)
{
	storm_run(THREADS, share, on_signal);
}

static void each_beginning_is_told_of_once(void **state)
{
	struct tallied_spans told;

	storm_processes(PROCESSES, run_shared);
	counts_read_spans(&told, map);
	assert_int_equal(tally->wrong, 0);
	assert_int_equal(tally->begun, tally->ended + told.begun_again + told.open);
	assert_true(told.open <= CALLTAP_MAP_SPAN_PROBES + 12);
	/* All of it has happened, or this says nothing. */
	assert_true(tally->ended > CALLS && told.begun_again > CALLS / 100 && told.not_begun > CALLS / 100);
	for (int i = 0; i < KEYS; i++) {
		const uint64_t key[2] = {near_keys[i], 7};
		uint64_t value;

		if (map_end(map, key, &value))
			assert_int_equal(value >> 32, near_keys[i]);
	}
	counts_read_spans(&told, map);
	assert_int_equal(told.open, 0);
}

/*
 * A thread's own keys: each end finds what the thread has left there, whoever else uses the slots.  Among those that
 * signals' handlers use there may be no room.
 */
static void *own(void *arg)
{
	uint64_t first = ((uint64_t)getpid() << 8 | (uintptr_t)arg) << 24;
	bool has[3] = {false, false, false};

	for (uint64_t i = 0; i < CALLS; i++) {
		const uint64_t key[2] = {first + i, i % 3}, before[2] = {first + i - 2, (i - 2) % 3};
		bool *had = &has[(i - 2) % 3];
		uint64_t value = 0;

		has[i % 3] = map_begin(map, key, ~(first + i));
		if (!has[i % 3])
			add(&tally->lost);
		if (i < 2)
			continue;
		if (map_end(map, before, &value) != *had || value != (*had ? ~before[0] : 0))
			add(&tally->wrong);
	}
	return NULL;
}

static void run_own(void)
{
	storm_run(THREADS, own, on_signal);
}

static void each_end_finds_its_beginning(void **state)
{
	storm_processes(PROCESSES, run_own);
	assert_true(tally->lost < CALLS / 1000);
	assert_int_equal(tally->wrong, 0);
}

/* What a process has left open goes with it, and others' does not. */
static void a_process_takes_its_spans_along(void **state)
{
	enum { PIDS = 5, EACH = 1000 };
	struct tallied_spans told;
	uint64_t value;

	for (uint64_t i = 0; i < (uint64_t)PIDS * EACH; i++)
		assert_true(map_begin(map, (uint64_t[]){i / PIDS, calltap_map_process(i % PIDS, 11 + i % 2)}, i));
	for (uint64_t i = 0; i < EACH; i += 2)
		assert_true(map_end(map, (uint64_t[]){i, calltap_map_process(3, 11)}, &value) ||
			    map_end(map, (uint64_t[]){i, calltap_map_process(3, 12)}, &value));
	assert_int_equal(counts_end_spans(map, calltap_map_process(3, 11)) +
				 counts_end_spans(map, calltap_map_process(3, 12)),
			 EACH / 2);
	assert_int_equal(counts_end_spans(map, calltap_map_process(3, 11)), 0);
	assert_int_equal(counts_end_spans(map, calltap_map_process(7, 11)), 0);
	counts_read_spans(&told, map);
	assert_int_equal(told.open, (PIDS - 1) * EACH);
	assert_int_equal(told.begun_again + told.roomless, 0);
}

/* Slots that are claimed for ever by threads that have ended are passed over, and without any other there is no room.
 */
static void claimed_slots_are_none(void **state)
{
	const uint64_t key[2] = {near_keys[0], 7};
	uint32_t at = (uint32_t)(keys_hash(key, 2, 0) >> 32) % CALLTAP_MAP_SPAN_SLOTS;
	struct tallied_spans told;
	uint64_t value;

	for (uint32_t i = 0; i + 1 < CALLTAP_MAP_SPAN_PROBES; i++)
		map->spans[(at + i) % CALLTAP_MAP_SPAN_SLOTS].state = CALLTAP_MAP_SPAN_CLAIMED;
	assert_true(map_begin(map, key, 5));
	assert_true(map_begin(map, key, 6));
	assert_true(map_end(map, key, &value));
	assert_int_equal(value, 6);
	map->spans[(at + CALLTAP_MAP_SPAN_PROBES - 1) % CALLTAP_MAP_SPAN_SLOTS].state = CALLTAP_MAP_SPAN_CLAIMED;
	assert_false(map_begin(map, key, 7));
	assert_false(map_end(map, key, &value));
	assert_int_equal(value, 0);
	counts_read_spans(&told, map);
	assert_int_equal(told.roomless, 1);
	assert_int_equal(told.not_begun, 1);
	assert_int_equal(told.begun_again, 1);
	assert_int_equal(told.open, 0);
}

/* Whatever another process writes there, nobody leaves the map, and all ends. */
static void *scribble(void *stop)
{
	uint64_t seed = 3, *words = (uint64_t *)map->spans;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		size_t at = storm_draw(&seed) % ((CALLTAP_MAP_SPAN_PROBES + 12) * sizeof(*map->spans) / 8);

		__atomic_store_n(&words[at], (uint64_t)storm_draw(&seed) << 31 | storm_draw(&seed), __ATOMIC_RELAXED);
	}
	return NULL;
}

static void junk_does_no_harm(void **state)
{
	bool stop = false;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, scribble, &stop), 0);
	for (uint32_t i = 0; i < 200000; i++) {
		begin(near_keys[i % KEYS], i);
		end(near_keys[i * 7 % KEYS]);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

/*
 * ---- Programs ----
 */

static struct fetch fetches[2];

static void compile(struct fetch *fetch, const char *text, enum spec_span span)
{
	const struct buckets log2 = {.kind = BUCKET_LOG2};
	struct calltap_diag diag = {0};
	struct spec spec;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, text, false, &diag), 0);
	spec.span = (uint8_t)span;
	fetch_compile_count(fetch, FETCH_COUNT, &spec, FETCH_REGISTERS_X86_64, NULL, &log2);
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch->insns, .count = fetch->count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
}

static int clear(void **state)
{
	if (counting_map)
		munmap(counting_map, sizeof(*counting_map));
	counting_map = NULL;
	counting_lane = 0;
	return 0;
}

static void run(const struct fetch *fetch, uint64_t number, uint64_t time, uint64_t pid, bool compiled)
{
	const struct calltap_program_context context = {.arguments = {number, number}, .function = 5};

	counting_load(fetch);
	counting_time = time;
	counting_pid = pid;
	assert_int_equal((compiled ? counting_run : counting_interpret)(&context), CALLTAP_VERDICT_LEAVE_OUT);
}

static struct tallied_spans told_of(struct tallied_ranges *ranges)
{
	const struct buckets log2 = {.kind = BUCKET_LOG2};
	struct tallied_spans told;

	counts_read_spans(&told, counting_map);
	bucket_read(ranges, counting_map, &log2);
	return told;
}

/* Each beginning by one of them, each end by the other. */
static void programs_measure(void **state)
{
	static const uint64_t times[] = {0, 1, 2, 3, 1023, 1024, 1u << 31, (uint64_t)1 << 40, INT64_MAX};
	enum { COUNT = sizeof(times) / sizeof(times[0]) };
	struct tallied_ranges ranges;
	struct tallied_spans told;
	uint64_t sum = 0;

	compile(&fetches[0], "f:arg1:u64", SPEC_BEGINS);
	compile(&fetches[1], "f:arg2:s64", SPEC_ENDS);
	for (uint64_t i = 0; i < COUNT; i++) {
		run(&fetches[0], 100 + i, 5 + i, 9, i & 1);
		sum += times[i];
	}
	run(&fetches[1], 100, 6, 8, false); /* of another process */
	for (uint64_t i = 0; i < COUNT; i++)
		run(&fetches[1], 100 + i, 5 + i + times[i], 9, !(i & 1));
	told = told_of(&ranges);
	assert_int_equal(told.ticks.count, COUNT);
	assert_int_equal(told.ticks.sum, sum);
	assert_int_equal(~told.ticks.least, 0);
	assert_int_equal(told.ticks.most, INT64_MAX);
	assert_int_equal(told.not_begun, 1);
	assert_int_equal(told.open + told.begun_again + told.roomless, 0);
	assert_int_equal(ranges.counts[1], 1);	/* 0 */
	assert_int_equal(ranges.counts[2], 1);	/* 1 */
	assert_int_equal(ranges.counts[3], 2);	/* 2, 3 */
	assert_int_equal(ranges.counts[11], 1); /* 1023 */
	assert_int_equal(ranges.counts[12], 1); /* 1024 */
	assert_int_equal(ranges.counts[33], 1);
	assert_int_equal(ranges.counts[42], 1);
	assert_int_equal(ranges.counts[64], 1);
}

/* An end whose clock is behind its beginning's took no time; numbers of less than 64 bits are as their types say. */
static void numbers_meet_by_their_types(void **state)
{
	struct tallied_ranges ranges;
	struct tallied_spans told;

	compile(&fetches[0], "f:arg1:s32", SPEC_BEGINS);
	compile(&fetches[1], "f:arg2:s64", SPEC_ENDS);
	run(&fetches[0], 0x5555555500000000 | (uint32_t)-3, 50, 1, true);
	run(&fetches[1], (uint64_t)-3, 40, 1, true);
	told = told_of(&ranges);
	assert_int_equal(told.ticks.count, 1);
	assert_int_equal(told.ticks.sum, 0);
	assert_int_equal(ranges.counts[1], 1);
}

static void what_cannot_be_read_is_no_number(void **state)
{
	struct tallied_ranges ranges;
	struct tallied_spans told;
	const uint64_t number = 4711;

	compile(&fetches[0], "f:+0(arg1):u64", SPEC_BEGINS);
	compile(&fetches[1], "f:+0(arg1):u64", SPEC_ENDS);
	for (int compiled = 0; compiled < 2; compiled++) {
		run(&fetches[0], 0, 1, 1, compiled);
		run(&fetches[0], (uintptr_t)&number, 1, 1, compiled);
		run(&fetches[1], 0, 2, 1, compiled);
		run(&fetches[1], (uintptr_t)&number, 3, 1, compiled);
	}
	told = told_of(&ranges);
	assert_int_equal(ranges.numberless, 4);
	assert_int_equal(told.ticks.count, 2);
	assert_int_equal(told.ticks.sum, 4);
	assert_int_equal(told.open + told.not_begun, 0);
}

/* A process without a map measures nothing. */
static void without_a_map_nothing_happens(void **state)
{
	struct tallied_ranges ranges;
	struct tallied_spans told;

	compile(&fetches[0], "f:arg1:u64", SPEC_BEGINS);
	compile(&fetches[1], "f:arg1:u64", SPEC_ENDS);
	counting_load(&fetches[0]);
	counting_absent = true;
	for (int compiled = 0; compiled < 2; compiled++) {
		run(&fetches[0], 5, 1, 1, compiled);
		run(&fetches[1], 5, 2, 1, compiled);
	}
	counting_absent = false;
	told = told_of(&ranges);
	assert_int_equal(told.ticks.count + told.open + told.not_begun, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_beginning_is_told_of_once, setup, teardown),
		cmocka_unit_test_setup_teardown(each_end_finds_its_beginning, setup, teardown),
		cmocka_unit_test_setup_teardown(a_process_takes_its_spans_along, setup, teardown),
		cmocka_unit_test_setup_teardown(claimed_slots_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(junk_does_no_harm, setup, teardown),
		cmocka_unit_test_setup(programs_measure, clear),
		cmocka_unit_test_setup(numbers_meet_by_their_types, clear),
		cmocka_unit_test_setup(what_cannot_be_read_is_no_number, clear),
		cmocka_unit_test_setup(without_a_map_nothing_happens, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
