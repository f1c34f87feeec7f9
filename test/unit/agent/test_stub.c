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
#define REGION	    0x7f0000000000u

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

	assert_int_equal(arch_hook_restore(writes, old), 3);
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

/* What a stub's frame is looked at with. */
struct frame {
	const uint8_t *code; /* the bytes at rip */
	uint64_t rsp;
};

/* The value that an operation with two operands leaves. */
static uint64_t combine(uint8_t op, uint64_t left, uint64_t right)
{
	switch (op) {
	case 0x1a:
		return left & right;
	case 0x1c:
		return left - right;
	case 0x1e:
		return left * right;
	case 0x22:
		return left + right;
	case 0x25:
		return left >> right;
	case 0x27:
		return left ^ right;
	case 0x29:
		return left == right;
	default:
		fail_msg("DWARF operation %#x", op);
		return 0;
	}
}

/* Read what a breg operation on rip points to: breg16 offset, deref_size n. */
static uint64_t code_bytes(const uint8_t *operation, const struct frame *frame)
{
	uint64_t value = 0;

	assert_int_equal(operation[2], 0x94);
	memcpy(&value, frame->code + operation[1], operation[3]);
	return value;
}

/* A DWARF expression of `size` bytes; the stack starts with `first`. */
static uint64_t evaluate(const uint8_t *at, size_t size, const struct frame *frame, uint64_t first)
{
	const uint8_t *end = at + size;
	uint64_t stack[8] = {first}, swap;
	int top = 0;

	while (at < end) {
		uint8_t op = *at++;

		assert_in_range(top, 0, 6);
		if (op >= 0x30 && op <= 0x4f) {
			stack[++top] = op - 0x30;
		} else if (op == 0x77) {
			stack[++top] = frame->rsp + *at++;
		} else if (op == 0x80) {
			stack[++top] = code_bytes(at - 1, frame);
			at += 3;
		} else if (op == 0x08) {
			stack[++top] = *at++;
		} else if (op == 0x09) {
			stack[++top] = (uint64_t)(int64_t)(int8_t)*at++;
		} else if (op == 0x0a) {
			stack[++top] = at[0] | (uint64_t)at[1] << 8;
			at += 2;
		} else if (op == 0x0e) {
			stack[++top] = u64(at);
			at += 8;
		} else if (op == 0x12) {
			stack[top + 1] = stack[top];
			top++;
		} else if (op == 0x16) {
			swap = stack[top];
			stack[top] = stack[top - 1];
			stack[top - 1] = swap;
		} else {
			top--;
			stack[top] = combine(op, stack[top], stack[top + 1]);
		}
	}
	assert_ptr_equal(at, end);
	return stack[top];
}

/* What the CIE's rules say of a frame. */
struct caller {
	uint64_t cfa, rsp, address_at;
};

static struct caller apply_rules(const uint8_t *at, const uint8_t *end, const struct frame *frame)
{
	struct caller caller = {0};
	int rsp_rule = 0;

	while (at < end) {
		uint8_t op = *at++;

		if (op == 0x0f) { /* def_cfa_expression size */
			caller.cfa = evaluate(at + 1, at[0], frame, 0);
			at += 1 + at[0];
		} else if (op == 0x16 || op == 0x10) { /* (val_)expression register, size */
			uint64_t value = evaluate(at + 2, at[1], frame, caller.cfa);

			assert_int_equal(at[0], op == 0x16 ? 7 : 16);
			*(op == 0x16 ? &caller.rsp : &caller.address_at) = value;
			rsp_rule |= op == 0x16;
			at += 2 + at[1];
		} else {
			assert_int_equal(op, 0); /* nop */
		}
	}
	assert_ptr_equal(at, end);
	if (!rsp_rule)
		caller.rsp = caller.cfa;
	return caller;
}

/* Length of the stub's instruction at code. */
static unsigned instruction_length(const uint8_t *code)
{
	switch (code[0]) {
	case 0x64:
		return 9;
	case 0x0f:
	case 0xff:
		return 6;
	default:
		return 5;
	}
}

/* Walk a stub as the CPU would, and look at each instruction. */
static void walk_stub(const uint8_t *rules, const uint8_t *end, enum arch_unwinder unwinder, uint16_t flags,
		      uint64_t slot)
{
	const struct calltap_site site = {
		.address = REGION + 0x5000, .flags = flags, .length = 5, .body_off = 5, .id = ID};
	uint8_t code[80];
	size_t size = arch_stub_build(code, REGION + 0x100, REGION, &site, GATE_OFFSET);
	struct frame frame = {code, slot};
	int in_mirror = 0;

	memset(code + size, 0xa5, sizeof(code) - size);
	while (frame.code < code + size) {
		struct caller caller = apply_rules(rules, end, &frame);

		/* libgcc tells frames apart by CFA, and the body's is slot + 8. */
		assert_true(caller.cfa == slot + 8 + (uint64_t)(in_mirror && unwinder != ARCH_UNWINDER_OTHER));
		assert_true(caller.rsp == slot + 8);
		assert_true(caller.address_at == (in_mirror ? (uint64_t)arch_mirror(slot) : slot));
		if (frame.code[0] == 0x68) {
			frame.rsp -= 8;
		} else if (frame.code[0] == 0xff && frame.code[1] == 0x15) {
			in_mirror = !(flags & CALLTAP_SITE_CALL);
			frame.rsp = in_mirror ? slot + 8 : slot;
		}
		frame.code += instruction_length(frame.code);
	}
	assert_ptr_equal(frame.code, code + size);
}

static void check_rules(const uint8_t *rules, const uint8_t *end, enum arch_unwinder unwinder)
{
	static const uint64_t slots[] = {0x7fffffffdc58, 0x4c5008, 0x55555576a2f0};

	for (uint16_t flags = 0; flags < 64; flags++)
		for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
			walk_stub(rules, end, unwinder, flags, slots[i]);
}

static void check_table(enum arch_unwinder unwinder)
{
	_Alignas(8) uint8_t table[ARCH_EH_FRAME_MAX + 8];
	uint64_t hi = (uint64_t)table, lo = hi - 0x3000;
	const uint8_t *cie, *fde, *end;
	size_t size;

	memset(table, 0xa5, sizeof(table));
	size = arch_eh_frame_build(table, unwinder, lo, hi, 0x123456789abcdef0);
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
	/* Data alignment -8, return address 16; personality and FDE addresses absolute. */
	assert_memory_equal(cie + 8, "\x01zPR\0\x01\x78\x10\x0a\x00", 10);
	assert_true(u64(cie + 18) == (unwinder == ARCH_UNWINDER_LIBGCC ? 0x123456789abcdef0 : 0));
	assert_int_equal(cie[26], 0);
	check_rules(cie + 27, end, unwinder);

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

static void unwind_tables(void **state)
{
	check_table(ARCH_UNWINDER_LIBGCC);
	check_table(ARCH_UNWINDER_UNKNOWN);
	check_table(ARCH_UNWINDER_OTHER);
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
		cmocka_unit_test(unwind_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
