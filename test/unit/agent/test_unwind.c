/*
 * The unwind table of a stub region, read back by a small DWARF reader of the test's own: at every instruction of
 * every stub it gives the caller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <calltap/abi/control.h>
#include "walk.h"

#define ID	    0x0abcdefu
#define REGION	    0x3f00000000u
#define REGION_SIZE 0x3000u
#define STUB	    (REGION + 0x100)
#define CALLER	    0x5555555551c4u
#define PERSONALITY 0x123456789abcdef0u

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

/* Read from the thread's memory: only its slot and the slot's mirror.  No rule reads a stub, for debuggers write there.
 */
static uint64_t load(const struct walk *walk, uint64_t address)
{
	if (address == walk->slot)
		return walk->slot_word;
	if (address == (uint64_t)arch_mirror(walk->slot))
		return walk->mirrored ? CALLER : 0;
	assert_true(address == CALLER);
	return walk->caller_code;
}

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
	case 0x21:
		return left | right;
	case 0x22:
		return left + right;
	case 0x24:
		return left << right;
	case 0x25:
		return left >> right;
	case 0x27:
		return left ^ right;
	case 0x29:
		return left == right;
	case 0x2a:
		return (int64_t)left >= (int64_t)right;
	case 0x2b:
		return (int64_t)left > (int64_t)right;
	case 0x2c:
		return (int64_t)left <= (int64_t)right;
	case 0x2d:
		return (int64_t)left < (int64_t)right;
	case 0x2e:
		return left != right;
	default:
		fail_msg("DWARF operation %#x", op);
		return 0;
	}
}

static int64_t sleb128(const uint8_t **at)
{
	unsigned shift = 0;
	int64_t value = 0;
	uint8_t byte;

	do {
		byte = *(*at)++;
		value |= (int64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return byte & 0x40 ? value - ((int64_t)1 << shift) : value;
}

static uint64_t uleb128(const uint8_t **at)
{
	uint64_t low = *(*at)++;

	return low & 0x80 ? (low & 0x7f) | (uint64_t) * (*at)++ << 7 : low;
}

/* An operation that pushes what its operand says: true, and the value. */
static bool literal(const uint8_t **at, const struct walk *walk, uint64_t *value)
{
	uint8_t op = **at;
	uint8_t size = op == 0x08 || op == 0x09 ? 1 : op == 0x0a || op == 0x0b ? 2 : op == 0x0c || op == 0x0d ? 4 : 8;

	if (op >= 0x30 && op <= 0x4f) { /* lit */
		*value = op - 0x30;
		(*at)++;
	} else if (op >= 0x70 && op <= 0x8f) { /* breg */
		(*at)++;
		*value = walk->regs[op - 0x70];
		*value += (uint64_t)sleb128(at);
	} else if (op == 0x92) { /* bregx: the pc, which has a number of its own */
		(*at)++;
		uleb128(at);
		*value = walk->pc;
		*value += (uint64_t)sleb128(at);
	} else if (op >= 0x08 && op <= 0x0f) { /* const; odd ones are signed */
		*value = 0;
		memcpy(value, *at + 1, size);
		if (op & 1 && size < 8 && *value >> (8 * size - 1))
			*value -= (uint64_t)1 << 8 * size;
		*at += 1 + size;
	} else {
		return false;
	}
	return true;
}

/* A DWARF expression of `size` bytes; the stack starts with `first`. */
static uint64_t evaluate(const uint8_t *at, size_t size, const struct walk *walk, uint64_t first)
{
	const uint8_t *end = at + size;
	uint64_t stack[10] = {first}, swap;
	int top = 0;

	while (at < end) {
		assert_in_range(top, 0, 8);
		if (literal(&at, walk, &stack[top + 1])) {
			top++;
			continue;
		}
		switch (*at++) {
		case 0x06: /* deref */
			stack[top] = load(walk, stack[top]);
			break;
		case 0x94: /* deref_size */
			stack[top] = load(walk, stack[top]);
			at++;
			break;
		case 0x12: /* dup */
			stack[top + 1] = stack[top];
			top++;
			break;
		case 0x13: /* drop */
			top--;
			break;
		case 0x14: /* over */
			stack[top + 1] = stack[top - 1];
			top++;
			break;
		case 0x16:
			swap = stack[top];
			stack[top] = stack[top - 1];
			stack[top - 1] = swap;
			break;
		case 0x20: /* not */
			stack[top] = ~stack[top];
			break;
		case 0x28: /* bra */
			at += 2 + (stack[top--] ? (int16_t)(at[0] | at[1] << 8) : 0);
			break;
		case 0x2f: /* skip */
			at += 2 + (int16_t)(at[0] | at[1] << 8);
			break;
		default:
			top--;
			stack[top] = combine(at[-1], stack[top], stack[top + 1]);
		}
	}
	assert_ptr_equal(at, end);
	return stack[top];
}

/* The caller by the CIE's rules. */
struct caller {
	uint64_t cfa, sp, address;
};

static struct caller apply_rules(const uint8_t *at, const uint8_t *end, const struct walk *walk)
{
	struct caller caller = {0};
	bool sp_rule = false;

	while (at < end) {
		uint8_t op = *at++;
		uint64_t reg, size, value;

		if (op == 0)
			continue;
		reg = op == 0x0f ? 0 : uleb128(&at);
		size = uleb128(&at);
		value = evaluate(at, size, walk, op == 0x0f ? 0 : caller.cfa);
		at += size;
		if (op == 0x0f) { /* def_cfa_expression */
			caller.cfa = value;
		} else if (reg == walk_sp) { /* val_expression */
			assert_int_equal(op, 0x16);
			caller.sp = value;
			sp_rule = true;
		} else { /* expression, val_expression */
			assert_int_equal(reg, ARCH_DWARF_RETURN);
			assert_true(op == 0x10 || op == 0x16);
			caller.address = op == 0x10 ? load(walk, value) : value;
		}
	}
	assert_ptr_equal(at, end);
	if (!sp_rule)
		caller.sp = caller.cfa;
	return caller;
}

/*
 * Walk a stub as the CPU would, and look at each instruction.  gated: it is in a region with gates.  led: it is come to
 * by way of another one.
 */
static void walk_stub_by(bool led, const uint8_t *rules, const uint8_t *end, enum arch_unwinder unwinder, bool gated,
			 uint16_t flags, uint64_t slot, uint32_t caller_code)
{
	const uint64_t stub = STUB + (gated && !(flags & CALLTAP_SITE_GATED) ? walk_unused_gate : 0);
	const struct calltap_site site = {
		.address = REGION + 0x5000, .flags = flags, .length = 5, .body_off = 8, .id = ID};
	struct walk walk = {.slot = slot,
			    .call = flags & CALLTAP_SITE_CALL,
			    .caller_code = caller_code,
			    .site = site.address + site.body_off};
	bool is_odd = unwinder != ARCH_UNWINDER_OTHER && (!caller_code || caller_code != walk_sigreturn);
	uint8_t room[WALK_ROOM + 128] = {0}, *code = room + WALK_ROOM;
	size_t size = arch_stub_build(code, stub, REGION, &site, walk_gates[0]), steps = 0;
	bool goes_on = true;

	assert_in_range(size, 1, sizeof(room) - WALK_ROOM - 16);
	memset(code + size, 0xa5, sizeof(room) - WALK_ROOM - size);
	walk_begin(&walk, code, stub, CALLER);
	if (led && !walk_begin_led(&walk, room, stub, CALLER))
		return;
	for (; goes_on; goes_on = walk_step(&walk), steps++) {
		struct caller caller = apply_rules(rules, end, &walk);

		assert_true(walk.code < code + size);
		/* libgcc tells frames apart by CFA, and the body's is slot + 8. */
		assert_true(caller.cfa == slot + 8 + (walk.mirrored && is_odd));
		assert_true(caller.sp == slot + 8);
		assert_true(caller.address == CALLER);
	}
	assert_int_equal(walk.mirrored, !walk.call);
	assert_true(steps > (led ? 6 : 1));
}

static void walk_stub(const uint8_t *rules, const uint8_t *end, enum arch_unwinder unwinder, bool gated, uint16_t flags,
		      uint64_t slot, uint32_t caller_code)
{
	walk_stub_by(false, rules, end, unwinder, gated, flags, slot, caller_code);
	walk_stub_by(true, rules, end, unwinder, gated, flags, slot, caller_code);
}

/* The unit of a leaf, where the caller's address stays in the slot, and the stub behind it. */
static void walk_leaf(const uint8_t *rules, const uint8_t *end, enum arch_unwinder unwinder, uint64_t slot)
{
	const struct calltap_site site = {.address = REGION + 0x5000,
					  .flags = CALLTAP_SITE_BRIEF | CALLTAP_SITE_LEAF,
					  .length = 5,
					  .body_off = 8,
					  .id = ID};
	uint8_t code[128];
	size_t size = arch_stub_build(code, STUB, REGION, &site, walk_gates[0]);

	assert_in_range(size, 1, sizeof(code));
	for (unsigned framed = 0; framed < 2; framed++) {
		struct walk walk = {.slot = slot, .leaf = !framed, .site = site.address + site.body_off};
		unsigned at = framed * walk_leaf_unit, steps = 0;
		bool is_odd = unwinder != ARCH_UNWINDER_OTHER;

		walk_begin(&walk, code + at, STUB + at, CALLER);
		do {
			struct caller caller = apply_rules(rules, end, &walk);

			assert_true(caller.cfa == slot + 8 + (walk.mirrored && is_odd));
			assert_true(caller.sp == slot + 8);
			assert_true(caller.address == CALLER);
			steps++;
		} while (walk_step(&walk));
		assert_int_equal(steps, framed ? 5 : 4);
		assert_true(walk.mirrored == framed);
		assert_true(walk.body == site.address + site.body_off);
		assert_true(walk.entry == REGION + 8 * (framed ? ARCH_ENTRY_BRIEF : ARCH_ENTRY_LEAF));
		assert_true(walk.exit == REGION + 8 * (framed ? ARCH_EXIT_BRIEF : ARCH_EXIT_LEAF));
		assert_true(arch_is_leaf_back(STUB + (uint64_t)(walk.back - code)) == !framed);
	}
}

static void check_rules(const uint8_t *rules, const uint8_t *end, enum arch_unwinder unwinder, bool gated)
{
	static const uint64_t slots[] = {0x7fffffffdc58, 0x4c5008, 0x55555576a2f8};

	for (uint16_t flags = 0; flags < 1024; flags++)
		for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]) && (gated || !(flags & CALLTAP_SITE_GATED));
		     i++)
			for (unsigned k = 0; k < 2; k++)
				walk_stub(rules, end, unwinder, gated, flags, slots[i], k ? walk_sigreturn : 0);
	for (size_t i = 0; walk_leaf_unit && !gated && i < sizeof(slots) / sizeof(slots[0]); i++)
		walk_leaf(rules, end, unwinder, slots[i]);
}

static void check_entries(const uint8_t *table, size_t size, enum arch_unwinder unwinder, uint64_t lo, uint64_t hi,
			  bool gated)
{
	const uint8_t *cie = table + ARCH_EH_HDR_SIZE, *fde = table + (int32_t)u32(table + 16);
	const uint8_t head[] = {1, 'z', 'P', 'R', 0, 1, 0x78, ARCH_DWARF_RETURN, 0x0a, 0};
	const uint8_t *end = cie + 4 + u32(cie);

	assert_ptr_equal(fde, end);
	assert_int_equal(u32(cie + 4), 0);
	/* Data alignment -8; personality and FDE addresses absolute. */
	assert_memory_equal(cie + 8, head, sizeof(head));
	assert_true(u64(cie + 18) == (unwinder == ARCH_UNWINDER_LIBGCC ? PERSONALITY : 0));
	assert_int_equal(cie[26], 0);
	check_rules(cie + 27, end, unwinder, gated);

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

/* The rules hold for any stubs in [lo, hi); the header's table is relative to where it lies. */
static void check_table_of(enum arch_unwinder unwinder, bool gated)
{
	_Alignas(8) uint8_t table[ARCH_EH_FRAME_MAX + 8];
	uint64_t lo = REGION, hi = REGION + REGION_SIZE;
	size_t size;

	memset(table, 0xa5, sizeof(table));
	size = arch_eh_frame_build(table, unwinder, lo, hi, gated, PERSONALITY);
	assert_in_range(size, ARCH_EH_HDR_SIZE, ARCH_EH_FRAME_MAX);
	assert_int_equal(table[size], 0xa5);
	assert_memory_equal(table, "\x01\x1b\x03\x3b", 4);
	assert_ptr_equal(table + 4 + (int32_t)u32(table + 4), table + ARCH_EH_HDR_SIZE);
	assert_int_equal(u32(table + 8), 1);
	assert_int_equal(u32(table + 12), (uint32_t)(lo - (uint64_t)table));
	check_entries(table, size, unwinder, lo, hi, gated);
}

static void check_table(enum arch_unwinder unwinder)
{
	check_table_of(unwinder, false);
	check_table_of(unwinder, true);
}

static void for_libgcc(void **state)
{
	check_table(ARCH_UNWINDER_LIBGCC);
}

static void for_an_unknown_unwinder(void **state)
{
	check_table(ARCH_UNWINDER_UNKNOWN);
}

static void for_others(void **state)
{
	check_table(ARCH_UNWINDER_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(for_libgcc),
		cmocka_unit_test(for_an_unknown_unwinder),
		cmocka_unit_test(for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
