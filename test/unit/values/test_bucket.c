/*
 * Ranges of numbers: a program counts a number where C would, and nowhere else, in the interpreter and compiled, by the
 * target's own look-up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/verify.h>
#include <host/values/fetch.h>
#include <probe/maps.h>

#include "counting.h"

static struct fetch fetch;

static void compile(const char *text, const struct buckets *buckets)
{
	struct calltap_diag diag = {0};
	struct spec spec;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, text, false, &diag), 0);
	assert_true(bucket_suits(&spec.fields[0]));
	fetch_compile_count(&fetch, FETCH_COUNT, &spec, FETCH_REGISTERS_X86_64, NULL, buckets);
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
	counting_load(&fetch);
}

/* Run the program both ways: both count in one bucket, which is returned; the last one: there was no number. */
static uint32_t run(uint64_t argument, const struct buckets *buckets)
{
	const struct calltap_program_context context = {.arguments = {argument}, .function = 77};
	uint32_t found = UINT32_MAX;
	struct tallied_ranges ranges;

	memset(counting_map->ranges, 0, sizeof(counting_map->ranges));
	assert_int_equal(counting_interpret(&context), CALLTAP_VERDICT_LEAVE_OUT);
	assert_int_equal(counting_run(&context), CALLTAP_VERDICT_LEAVE_OUT);
	bucket_read(&ranges, counting_map, buckets);
	for (uint32_t i = 0; i < BUCKETS_MAX + 3; i++) {
		uint64_t count = i < BUCKETS_MAX + 2 ? ranges.counts[i] : ranges.numberless;

		assert_true(count == 0 || (count == 2 && found == UINT32_MAX));
		found = count ? i : found;
	}
	assert_int_not_equal(found, UINT32_MAX);
	return found;
}

/* The bucket of a number; __int128 holds all numbers and sums. */
static uint32_t expected(const struct buckets *buckets, __int128 number)
{
	__int128 place;

	if (buckets->kind == BUCKET_LOG2) {
		uint32_t bits = 0;

		while (number > 0 && bits < 64 && number >> bits)
			bits++;
		return number < 0 ? 0 : bits + 1;
	}
	if (number < buckets->low)
		return 0;
	place = (number - buckets->low) / buckets->step;
	return place >= buckets->count ? (uint32_t)buckets->count + 1 : (uint32_t)place + 1;
}

static const uint64_t edges[] = {0,	      1,
				 2,	      3,
				 7,	      100,
				 127,	      128,
				 255,	      256,
				 0x7fff,      0x8000,
				 0xffff,      0x7fffffff,
				 0x80000000,  0xffffffff,
				 0x100000000, (uint64_t)1 << 60,
				 INT64_MAX,   (uint64_t)INT64_MAX + 1,
				 UINT64_MAX};

static void check(const char *type, unsigned bits, bool has_sign, const struct buckets *buckets)
{
	char text[32] = "f:arg1:";

	strncat(text, type, sizeof(text) - strlen(text) - 1);
	compile(text, buckets);
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		for (int more = -2; more <= 2; more++) {
			uint64_t argument = edges[i] + (uint64_t)more, cut = argument << (64 - bits);
			__int128 number = has_sign ? (__int128)((int64_t)cut >> (64 - bits)) : cut >> (64 - bits);

			assert_int_equal(run(argument, buckets), expected(buckets, number));
		}
}

static void ranges_are_right(void **state)
{
	static const struct buckets all[] = {
		{.kind = BUCKET_LOG2},
		{BUCKET_LINEAR, 0, 1, 10},
		{BUCKET_LINEAR, 5, 100, 3},
		{BUCKET_LINEAR, -130, 7, 1000},
		{BUCKET_LINEAR, -BUCKET_LOW_MAX, INT32_MAX, 1000},
		{BUCKET_LINEAR, BUCKET_LOW_MAX, INT32_MAX, 1000},
		{BUCKET_LINEAR, INT32_MAX, 1, 1},
	};
	static const struct {
		const char *type;
		unsigned bits;
		bool has_sign;
	} types[] = {{"u8", 8, false},	 {"s8", 8, true},   {"u16", 16, false}, {"s16", 16, true},
		     {"u32", 32, false}, {"s32", 32, true}, {"u64", 64, false}, {"s64", 64, true}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++)
			check(types[k].type, types[k].bits, types[k].has_sign, &all[i]);
}

/* A number in memory that is not there is none; one that is there is counted as it is. */
static void what_cannot_be_read_is_no_number(void **state)
{
	static const struct buckets all[] = {
		{.kind = BUCKET_LOG2}, {BUCKET_LINEAR, -3, 1, BUCKETS_MAX}, {BUCKET_LINEAR, 1, 1, BUCKETS_MAX}};
	static const char *const texts[] = {"f:+0(arg1):u64", "f:+0(arg1):s64"};
	const uint64_t numbers[] = {0, 5, 1u << 20, UINT64_MAX};

	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 2; k++) {
			compile(texts[k], &all[i]);
			assert_int_equal(run(0, &all[i]), BUCKETS_MAX + 2);
			for (size_t n = 0; n < 4; n++)
				assert_int_equal(run((uintptr_t)&numbers[n], &all[i]),
						 expected(&all[i], k ? (__int128)(int64_t)numbers[n] : numbers[n]));
		}
}

/* A process that counts nothing has no arrays: the program ends as ever. */
static void without_an_array_nothing_is_counted(void **state)
{
	const struct buckets buckets = {.kind = BUCKET_LOG2};
	const struct calltap_program_context context = {.arguments = {7}};

	compile("f:arg1:u64", &buckets);
	memset(counting_map->ranges, 0, sizeof(counting_map->ranges));
	counting_absent = true;
	assert_int_equal(counting_interpret(&context), CALLTAP_VERDICT_LEAVE_OUT);
	assert_int_equal(counting_run(&context), CALLTAP_VERDICT_LEAVE_OUT);
	counting_absent = false;
	for (uint32_t lane = 0; lane < CALLTAP_MAP_LANES; lane++)
		for (uint32_t i = 0; i < CALLTAP_MAP_RANGES_MAX; i++)
			assert_int_equal(counting_map->ranges[lane][i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_are_right),
					   cmocka_unit_test(what_cannot_be_read_is_no_number),
					   cmocka_unit_test(without_an_array_nothing_is_counted)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
