/*
 * Stub, jump and toggle bytes, taken apart by hand, and the unwind table read
 * back by a small DWARF reader of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>

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

static enum arch_entry wanted_entry(uint16_t flags)
{
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_ENTRY_NOTREE;
	if (flags & CALLTAP_SITE_ROOT)
		return ARCH_ENTRY_ROOT;
	return flags & CALLTAP_SITE_FULL_ENTRY ? ARCH_ENTRY_FULL : ARCH_ENTRY_FAST;
}

static enum arch_entry wanted_exit(uint16_t flags)
{
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_EXIT_NOTREE;
	return flags & (CALLTAP_SITE_ROOT | CALLTAP_SITE_FULL_EXIT) ? ARCH_EXIT_FULL : ARCH_EXIT_FAST;
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
		expect_bytes(&code, "\x0f\x82", 2);
		assert_true(take_target(&code) == body);
	}
	expect_bytes(&code, "\x68", 1);
	if (flags & CALLTAP_SITE_CALL) {
		assert_int_equal((uint32_t)take32(&code), (uint32_t)CALLTAP_REC_CALL << 28 | ID);
		expect_bytes(&code, "\xff\x15", 2);
		assert_true(take_target(&code) == region + 8 * ARCH_CALL);
		expect_bytes(&code, "\xe9", 1);
		assert_true(take_target(&code) == body);
	} else {
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

	for (uint16_t flags = 0; flags < 64; flags++) {
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

static void toggle_bytes(void **state)
{
	struct arch_toggle toggle;

	assert_int_equal(arch_site_toggle(&toggle, 0x1000, 5, (const uint8_t[]){0xe9, 3}), 0);
	assert_true(toggle.address == 0x1000 && toggle.on == 0xe9 && toggle.off == 0xeb);
	assert_int_equal(arch_site_toggle(&toggle, 0x1000, 2, (const uint8_t[]){0xeb, 0xf9}), 0);
	assert_true(toggle.address == 0x1001 && toggle.on == 0xf9 && toggle.off == 0);
	/* Not switched on, not ours, or a jump that one byte cannot switch. */
	assert_int_equal(arch_site_toggle(&toggle, 0x1000, 5, (const uint8_t[]){0xeb, 3}), -1);
	assert_int_equal(arch_site_toggle(&toggle, 0x1000, 5, (const uint8_t[]){0x90, 0x90}), -1);
	assert_int_equal(arch_site_toggle(&toggle, 0x1000, 5, (const uint8_t[]){0xe9, 4}), -1);
	assert_int_equal(arch_site_toggle(&toggle, 0x1000, 2, (const uint8_t[]){0x66, 0x90}), -1);
}

static void empty_functions(void **state)
{
	assert_true(arch_is_empty_function((const uint8_t[]){0xf3, 0x0f, 0x1e, 0xfa, 0xc3}));
	assert_true(arch_is_empty_function((const uint8_t[]){0xc3, 0xcc, 0xcc, 0xcc, 0xcc}));
	assert_false(arch_is_empty_function((const uint8_t[]){0xcc, 0x90, 0x90, 0x90, 0x90})); /* a debugger's int3 */
	assert_false(arch_is_empty_function((const uint8_t[]){0xc3, 0x55, 0x48, 0x89, 0xe5})); /* the next function */
	assert_false(arch_is_empty_function((const uint8_t[]){0xe9, 0, 0, 0, 0}));
}

static uint32_t u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint64_t u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* A DWARF expression of `size` bytes, with the CFA on the stack. */
static uint64_t evaluate(const uint8_t *at, size_t size, uint64_t cfa)
{
	const uint8_t *end = at + size;
	uint64_t stack[8] = {cfa};
	int top = 0;

	while (at < end) {
		uint8_t op = *at++;

		if (op >= 0x30 && op <= 0x4f) {
			stack[++top] = op - 0x30;
		} else if (op == 0x0e) {
			stack[++top] = u64(at);
			at += 8;
		} else if (op == 0x1c) {
			top--;
			stack[top] -= stack[top + 1];
		} else if (op == 0x27) {
			top--;
			stack[top] ^= stack[top + 1];
		} else {
			fail_msg("DWARF operation %#x", op);
		}
		assert_in_range(top, 0, 6);
	}
	assert_ptr_equal(at, end);
	assert_int_equal(top, 0);
	return stack[0];
}

/* The CIE's rules at B_f of a frame whose slot is S, where rsp = S + 8. */
static void check_rules(const uint8_t *at, const uint8_t *end, uint64_t slot)
{
	uint64_t cfa = 0, rsp = 0, address = 0;

	while (at < end) {
		uint8_t op = *at++;

		if (op == 0x0c) { /* def_cfa register, offset */
			assert_int_equal(at[0], 7);
			cfa = slot + 8 + at[1];
			at += 2;
		} else if (op == 0x16 || op == 0x10) { /* (val_)expression register, size */
			uint64_t value = evaluate(at + 2, at[1], cfa);

			assert_int_equal(at[0], op == 0x16 ? 7 : 16);
			*(op == 0x16 ? &rsp : &address) = value;
			at += 2 + at[1];
		} else {
			assert_int_equal(op, 0); /* nop */
		}
	}
	assert_ptr_equal(at, end);
	assert_true(rsp == slot + 8);
	assert_true(address == (uint64_t)arch_mirror(slot));
	assert_true(cfa != slot + 8); /* the body's: unwinders tell frames apart by it */
}

static void unwind_table(void **state)
{
	_Alignas(8) uint8_t table[ARCH_EH_FRAME_MAX + 8];
	uint64_t hi = (uint64_t)table, lo = hi - 0x3000;
	const uint8_t *cie, *fde, *end;
	size_t size;

	memset(table, 0xa5, sizeof(table));
	size = arch_eh_frame_build(table, lo, hi);
	assert_in_range(size, ARCH_EH_HDR_SIZE, ARCH_EH_FRAME_MAX);
	assert_int_equal(table[size], 0xa5);
	assert_memory_equal(table, "\x01\x1b\x03\x3b", 4);
	cie = table + 4 + (int32_t)u32(table + 4);
	assert_ptr_equal(cie, table + ARCH_EH_HDR_SIZE);
	assert_int_equal(u32(table + 8), 1);
	assert_true((uint64_t)table + (uint64_t)(int64_t)(int32_t)u32(table + 12) == lo);
	fde = table + (int32_t)u32(table + 16);

	end = cie + 4 + u32(cie);
	assert_ptr_equal(fde, end);
	assert_int_equal(u32(cie + 4), 0);
	assert_memory_equal(cie + 8, "\x01zR\0\x01\x78\x10\x01\x00",
			    9); /* data alignment -8, return address 16, absolute */
	check_rules(cie + 17, end, 0x7fffffffdc58);
	check_rules(cie + 17, end, 0x4c5008);

	assert_ptr_equal(fde + 4 - u32(fde + 4), cie);
	assert_true(u64(fde + 8) == lo);
	assert_true(u64(fde + 16) == hi - lo);
	assert_int_equal(fde[24], 0);
	end = fde + 4 + u32(fde);
	for (const uint8_t *at = fde + 25; at < end; at++)
		assert_int_equal(*at, 0);
	assert_int_equal(u32(end), 0);
	assert_ptr_equal(end + 4, table + size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs_of_all_flags),
		cmocka_unit_test(stubs_at_the_end_of_reach),
		cmocka_unit_test(jumps),
		cmocka_unit_test(toggle_bytes),
		cmocka_unit_test(empty_functions),
		cmocka_unit_test(unwind_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
