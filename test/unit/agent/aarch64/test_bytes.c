/* Jumps, sites and the loader's hook of aarch64, byte by byte (as binutils' assembler writes them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>

#define AT   0x555555554f00u
#define NOP  "\x1f\x20\x03\xd5"
#define RET  "\xc0\x03\x5f\xd6"
#define BTI  "\x5f\x24\x03\xd5"
#define MOVE "\xe0\x03\x1f\x2a"

static void expect_jump(int64_t distance, const char *bytes)
{
	uint8_t code[4];

	arch_jump_make(code, AT, AT + (uint64_t)distance);
	assert_memory_equal(code, bytes, 4);
	memset(code, 0, sizeof(code));
	arch_site_make(code, AT, 4, AT + (uint64_t)distance);
	assert_memory_equal(code, bytes, 4);
}

static void jumps(void **state)
{
	expect_jump(0x1008, "\x02\x04\x00\x14");
	expect_jump(-0xf8, "\xc2\xff\xff\x17");
	expect_jump(0x07fffffc, "\xff\xff\xff\x15");
	expect_jump(-0x08000000, "\x00\x00\x00\x16");
	assert_true(ARCH_REACH <= 0x07fffffc);
}

/* A head of two instructions keeps a landing pad; what lies behind the jump stays. */
static void heads(void **state)
{
	uint8_t one[] = "\xe0\x03\x1f\x2a", two[] = "\x3f\x23\x03\xd5\xfd\x7b\xbf\xa9\xe0";

	arch_lead_make(one, AT, 4, AT + 0x1008);
	assert_memory_equal(one, "\x02\x04\x00\x14", 4);
	arch_lead_make(two, AT, 8, AT + 0x100c);
	assert_memory_equal(two, BTI "\x02\x04\x00\x14\xe0", 9);
	assert_true(arch_lead_is_one(4));
	assert_false(arch_lead_is_one(8));
}

/* On and off are one aligned store each, and off is what the file has. */
static void sites(void **state)
{
	struct arch_write on = arch_site_switch(AT, 4, AT + 0x1008, true), writes[ARCH_STEPS_MAX];
	struct arch_write off = arch_site_switch(AT, 4, AT + 0x1008, false);
	uint8_t inert = 1;

	assert_int_equal(on.offset, 0);
	assert_int_equal(on.size, 4);
	assert_memory_equal(on.bytes, "\x02\x04\x00\x14", 4);
	assert_int_equal(off.offset, 0);
	assert_int_equal(off.size, 4);
	assert_memory_equal(off.bytes, NOP, 4);
	assert_int_equal(arch_site_restore(writes, 4, (const uint8_t *)NOP, &inert), 0);
	assert_int_equal(inert, 0);
	assert_int_equal(arch_site_restore(writes, 4, (const uint8_t *)MOVE, &inert), 0);
	assert_int_equal(inert, 4); /* all 4 bytes still differ from the old ones */
}

static void hooks(void **state)
{
	struct arch_write writes[ARCH_STEPS_MAX];

	assert_true(arch_is_empty_function((const uint8_t *)RET MOVE));
	assert_true(arch_is_empty_function((const uint8_t *)BTI RET));
	assert_false(arch_is_empty_function((const uint8_t *)BTI MOVE));
	assert_false(arch_is_empty_function((const uint8_t *)MOVE RET));
	assert_false(arch_is_empty_function((const uint8_t *)"\x20\x00\x5f\xd6" RET)); /* ret x1 */
	assert_int_equal(arch_hook_restore(writes, 0x1000, (const uint8_t *)BTI RET), 1);
	assert_int_equal(writes[0].offset, 0);
	assert_int_equal(writes[0].size, 4);
	assert_memory_equal(writes[0].bytes, BTI, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jumps),
		cmocka_unit_test(heads),
		cmocka_unit_test(sites),
		cmocka_unit_test(hooks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
