/* Stub, jump and toggle bytes of x86-64, taken apart by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include "recorders.h"

#define GATE_OFFSET (-4660)
#define ID	    0x0abcdefu

struct reader {
	const uint8_t *at;
	uint64_t address; /* where *at will run */
};

/* The function id in a stub's push. */
static uint32_t pushed_id(const uint8_t *push)
{
	uint32_t word;

	memcpy(&word, push + 1, sizeof(word));
	return word & CALLTAP_RECORD_ID_MAX;
}

static void expect_bytes(struct reader *code, const char *bytes, size_t size)
{
	assert_memory_equal(code->at, bytes, size);
	code->at += size;
	code->address += size;
}

static int32_t take32(struct reader *code)
{
	int32_t value;

	memcpy(&value, code->at, sizeof(value));
	code->at += sizeof(value);
	code->address += sizeof(value);
	return value;
}

static uint64_t take_target(struct reader *code)
{
	int64_t distance = take32(code);

	return code->address + (uint64_t)distance;
}

static void check_stub(uint16_t flags, uint64_t stub, uint64_t region, uint64_t site_address, uint8_t body_off)
{
	struct calltap_site site = {
		.address = site_address, .id = ID, .flags = flags, .length = 5, .body_off = body_off};
	uint64_t body = site_address + body_off;
	uint8_t bytes[64];
	struct reader code = {bytes, stub};
	size_t size;

	memset(bytes, 0xcc, sizeof(bytes));
	size = arch_stub_build(bytes, stub, region, &site, GATE_OFFSET);
	if (flags & CALLTAP_SITE_GATED) {
		expect_bytes(&code, "\x64\x48\x3b\x24\x25", 5);
		assert_int_equal(take32(&code), GATE_OFFSET);
		expect_bytes(&code, "\x2e\x0f\x82", 3);
		assert_true(take_target(&code) == body);
	}
	if (flags & CALLTAP_SITE_CALL) {
		expect_bytes(&code, "\x2e\x68", 2);
		assert_int_equal((uint32_t)take32(&code), (uint32_t)CALLTAP_REC_CALL << 28 | ID);
		expect_bytes(&code, "\xff\x15", 2);
		assert_true(take_target(&code) == region + 8 * ARCH_CALL);
		expect_bytes(&code, "\xe9", 1);
		assert_true(take_target(&code) == body);
	} else {
		expect_bytes(&code, "\x68", 1);
		assert_int_equal((uint32_t)take32(&code), (uint32_t)CALLTAP_REC_ENTRY << 28 | ID);
		expect_bytes(&code, "\xff\x15", 2);
		assert_true(take_target(&code) == region + 8 * wanted_entry(flags));
		expect_bytes(&code, "\xe8", 1);
		assert_true(take_target(&code) == body);
		assert_int_equal(pushed_id(code.at), ID);
		expect_bytes(&code, "\x68", 1);
		assert_int_equal((uint32_t)take32(&code), (uint32_t)CALLTAP_REC_EXIT << 28 | ID);
		expect_bytes(&code, "\xff\x25", 2);
		assert_true(take_target(&code) == region + 8 * wanted_exit(flags));
	}
	assert_int_equal(size, code.at - bytes);
	assert_int_equal(bytes[size], 0xcc);
}

static void stubs_of_all_flags(void **state)
{
	const uint64_t region = 0x7f1234560000;

	for (uint16_t flags = 0; flags < 1024; flags++) {
		check_stub(flags, region + 0x148, region, region + 0x340140, 5);
		check_stub(flags, region + 0x3fffff08, region, region - 0x40000000, 5);
		check_stub(flags, region + 0x47, region, region + 0x41, 6);
		check_stub(flags, 0x60000108, 0x60000000, 0x401100, 2);
	}
}

/* As far as ARCH_REACH allows, in both directions, no displacement may wrap. */
static void stubs_at_the_end_of_reach(void **state)
{
	const uint64_t stub = 0x7f1234560108;

	check_stub(0, stub, stub & ~0xfffull, stub + ARCH_REACH - 64, 5);
	check_stub(CALLTAP_SITE_GATED, stub, stub & ~0xfffull, stub - ARCH_REACH + 64, 5);
}

static void jumps(void **state)
{
	const uint64_t at = 0x555555554f00;
	uint8_t code[5];

	arch_jump_make(code, at, at + 0x1008);
	assert_memory_equal(code, "\xe9\x03\x10\0\0", 5);
	arch_jump_make(code, at, at - 0xf8);
	assert_memory_equal(code, "\xe9\x03\xff\xff\xff", 5);
	arch_jump_make(code, at, at - ARCH_REACH);
	assert_int_equal(code[0], 0xe9);
	assert_int_equal(code[4] >> 7, 1);
	arch_jump_make(code, at, at + ARCH_REACH);
	assert_int_equal(code[4] >> 7, 0);
}

/* On, off, and each step of the way back to `old`, which must come out as one instruction each time. */
static void check_way(const uint8_t *old, uint8_t length, const char *states, unsigned count, uint8_t inert)
{
	const uint64_t target = arch_site_is_short(length) ? 0x1000 - 5 : 0x1000 + length + 0x04030201;
	struct arch_write writes[ARCH_STEPS_MAX], off = arch_site_switch(0x1000, length, target, false);
	struct arch_write on = arch_site_switch(0x1000, length, target, true);
	uint8_t code[ARCH_SITE_MAX], left;

	arch_site_make(code, 0x1000, length, target);
	assert_memory_equal(code, states, length);
	assert_int_equal(on.offset, off.offset);
	assert_int_equal(code[on.offset], on.bytes[0]);
	assert_int_equal(off.size, 1);
	memcpy(code + off.offset, off.bytes, off.size);
	assert_memory_equal(code, states + length, length);
	assert_int_equal(arch_site_restore(writes, length, old, &left), count);
	assert_int_equal(left, inert);
	for (unsigned i = 0; i < count; i++) {
		memcpy(code + writes[i].offset, writes[i].bytes, writes[i].size);
		assert_memory_equal(code, states + (2 + i) * length, length);
	}
	assert_memory_equal(code + inert, old + inert, length - inert);
}

static void ways_back(void **state)
{
	check_way((const uint8_t *)"\x90\x90\x90\x90\x90", 5,
		  "\xe9\1\2\3\4"
		  "\x3d\1\2\3\4"
		  "\x3d\x90\x90\x90\x90"
		  "\x90\x90\x90\x90\x90",
		  2, 0);
	check_way((const uint8_t *)"\xff\x15\x11\x12\x13\x14", 6,
		  "\x2e\xe9\1\2\3\4"
		  "\x2e\x3d\1\2\3\4"
		  "\x2e\x3d\x11\x12\x13\x14"
		  "\x3b\x3d\x11\x12\x13\x14"
		  "\x3b\x15\x11\x12\x13\x14"
		  "\xff\x15\x11\x12\x13\x14",
		  4, 0);
	check_way((const uint8_t *)"\x67\xe8\x11\x12\x13\x14", 6,
		  "\x2e\xe9\1\2\3\4"
		  "\x2e\x3d\1\2\3\4"
		  "\x2e\x3d\x11\x12\x13\x14"
		  "\x67\x3d\x11\x12\x13\x14"
		  "\x67\xe8\x11\x12\x13\x14",
		  3, 0);
	check_way((const uint8_t *)"\x0f\x1f\x84\0\0\2\0\0", 8,
		  "\x2e\x2e\x2e\xe9\1\2\3\4"
		  "\x2e\x2e\x2e\x3d\1\2\3\4"
		  "\x2e\x2e\x2e\x3d\0\2\0\0",
		  1, 4);
	check_way((const uint8_t *)"\x66\x90", 2,
		  "\xeb\xf9"
		  "\x3c\xf9"
		  "\x3c\x90"
		  "\x66\x90",
		  2, 0);
	check_way((const uint8_t *)"\x0f\x1f\x00", 3,
		  "\x2e\xeb\xf8"
		  "\x2e\x3c\xf8"
		  "\x2e\x3c\x00",
		  1, 2);
}

static void hook_way_back(void **state)
{
	static const uint8_t old[5] = {0xf3, 0x0f, 0x1e, 0xfa, 0xc3};
	uint8_t code[5] = {0xe9, 1, 2, 3, 4};
	struct arch_write writes[ARCH_STEPS_MAX];

	assert_int_equal(arch_hook_restore(writes, 0x1000, old), 3);
	memcpy(code + writes[0].offset, writes[0].bytes, writes[0].size);
	assert_memory_equal(code, "\xc3\1\2\3\4", 5); /* returns at once, whatever follows */
	memcpy(code + writes[1].offset, writes[1].bytes, writes[1].size);
	assert_memory_equal(code, "\xc3\x0f\x1e\xfa\xc3", 5);
	memcpy(code + writes[2].offset, writes[2].bytes, writes[2].size);
	assert_memory_equal(code, old, 5);
	assert_true(arch_falls_through((const uint8_t *)"\x90\x90\x90\x90\x90"));
	assert_true(arch_falls_through((const uint8_t *)"\x0f\x1f\x44\x00\x08"));
	assert_false(arch_falls_through((const uint8_t *)"\x00\x0f\x1f\x40\x08")); /* the end of a longer one */
}

static void empty_functions(void **state)
{
	assert_true(arch_is_empty_function((const uint8_t[]){0xf3, 0x0f, 0x1e, 0xfa, 0xc3}));
	assert_true(arch_is_empty_function((const uint8_t[]){0xc3, 0xcc, 0xcc, 0xcc, 0xcc}));
	assert_false(arch_is_empty_function((const uint8_t[]){0xcc, 0x90, 0x90, 0x90, 0x90})); /* a debugger's int3 */
	assert_false(arch_is_empty_function((const uint8_t[]){0xc3, 0x55, 0x48, 0x89, 0xe5})); /* the next function */
	assert_false(arch_is_empty_function((const uint8_t[]){0xe9, 0, 0, 0, 0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs_of_all_flags),
		cmocka_unit_test(stubs_at_the_end_of_reach),
		cmocka_unit_test(jumps),
		cmocka_unit_test(ways_back),
		cmocka_unit_test(hook_way_back),
		cmocka_unit_test(empty_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
