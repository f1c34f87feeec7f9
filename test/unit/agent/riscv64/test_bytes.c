/* Jumps and sites of riscv64, byte by byte (as binutils' assembler writes them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>

#define AT  0x2aaaaaaf00u
#define NOP "\x13\x00\x00\x00"

/* auipc t0, hi; jalr t0, lo(t0) */
static void expect_site(int64_t distance, const char *site)
{
	uint8_t code[8];

	arch_site_make(code, AT, 8, AT + (uint64_t)distance);
	assert_memory_equal(code, site, 8);
}

static void jumps(void **state)
{
	expect_site(0x1008, "\x97\x12\x00\x00\xe7\x82\x82\x00");
	expect_site(-0xf8, "\x97\x02\x00\x00\xe7\x82\x82\xf0");
	/* The low half is signed. */
	expect_site(0x12345800, "\x97\x62\x34\x12\xe7\x82\x02\x80");
	expect_site(-0x12345800, "\x97\xb2\xcb\xed\xe7\x82\x02\x80");
	assert_true(ARCH_REACH < 0x7ffff800);
}

/* A head's jump leaves predictors of returns alone; what lies behind it stays. */
static void leads(void **state)
{
	uint8_t code[] = "\x41\x11\x06\xe4\x22\xe0\x05\x45\x82\x80";

	arch_lead_make(code, AT + 2, 10, AT + 2 + 0x1008); /* auipc t1, 1; jalr zero, 8(t1) */
	assert_memory_equal(code, "\x17\x13\x00\x00\x67\x00\x83\x00\x82\x80", 10);
	assert_false(arch_lead_is_one(10));
}

/* A head that leads to an island, near by or behind its own jump, and how far away one may be. */
static void islands(void **state)
{
	uint8_t code[] = "\x41\x11\x06\xe4\x22\xe0\x05\x45\x41\x11\x41\x11\x82\x80";

	assert_int_equal(arch_island_lead_bytes(4), 12);
	assert_int_equal(arch_island_lead_bytes(8), 4);
	assert_int_equal(arch_island_lead_bytes(0xffffe), 4);
	assert_int_equal(arch_island_lead_bytes(-0x100000), 4);
	assert_int_equal(arch_island_lead_bytes(0), 0);
	assert_int_equal(arch_island_lead_bytes(7), 0);
	assert_int_equal(arch_island_lead_bytes(0x100000), 0);
	assert_int_equal(arch_island_lead_bytes(-0x100002), 0);
	/* jal t1, .-0x1000; then jal t1, .+4; auipc t3, 1; jalr zero, 8(t3) */
	arch_lead_to_island(code, AT + 2, AT + 2 - 0x1000, AT + 0x12345678);
	assert_memory_equal(code, "\x6f\xf3\x0f\x80\x22\xe0", 6);
	arch_lead_to_island(code, AT + 2, AT + 6, AT + 6 + 0x1008);
	assert_memory_equal(code, "\x6f\x03\x40\x00\x17\x1e\x00\x00\x67\x00\x8e\x00\x82\x80", 14);
	assert_int_equal(arch_island_make(code, AT + 6, AT + 6 + 0x1008), 8);
	assert_memory_equal(code, "\x17\x1e\x00\x00\x67\x00\x8e\x00", 8);
	assert_int_equal(ARCH_ISLAND_MAX, 8);
}

static void expect_half(const struct arch_write *write, uint8_t offset, const char *bytes)
{
	assert_int_equal(write->offset, offset);
	assert_int_equal(write->size, 2);
	assert_memory_equal(write->bytes, bytes, 2);
}

/* Calls of a return with no room behind it are found and led elsewhere. */
static void hooks(void **state)
{
	/* c.ret; c.nop; jal ra, -4; c.nop; jal ra, -10; jal ra, -12; jal zero, -18 */
	static const char text[] = "\x82\x80\x01\x00\xef\xf0\xdf\xff\x01\x00\xef\xf0\x7f\xff\xef\xf0\x5f\xff"
				   "\x6f\xf0\xff\xfe";
	_Alignas(8) uint8_t code[sizeof(text)];
	uint64_t places[2], lo = (uint64_t)code, hi = lo + sizeof(text) - 1;
	struct arch_write writes[ARCH_STEPS_MAX];

	memcpy(code, text, sizeof(text));
	assert_int_equal(arch_hook_places(places, 2, lo, lo, hi), 2);
	assert_true(places[0] == lo + 4 && places[1] == lo + 10);
	assert_int_equal(arch_hook_places(places, 1, lo, lo, hi), 0);
	assert_int_equal(arch_hook_places(places, 2, lo + 2, lo, hi), 0);
	arch_jump_make(code + 4, lo + 4, lo + 4 + 0x1008);
	assert_memory_equal(code + 4, "\xef\x10\x80\x00", 4);
	/* In halves: c.j .+4 leads past while they do not fit. */
	assert_int_equal(arch_hook_restore(writes, lo + 10, (const uint8_t *)text + 10), 3);
	expect_half(&writes[0], 0, "\x11\xa0");
	expect_half(&writes[1], 2, text + 12);
	expect_half(&writes[2], 0, text + 10);
	assert_int_equal(arch_hook_restore(writes, lo + 4, (const uint8_t *)text + 4), 1);
	assert_int_equal(writes[0].size, 4);
	assert_memory_equal(writes[0].bytes, text + 4, 4);
}

static void expect_write(const struct arch_write *write, uint8_t offset, const char *bytes)
{
	assert_int_equal(write->offset, offset);
	assert_int_equal(write->size, 4);
	assert_memory_equal(write->bytes, bytes, 4);
}

/* Only the second word is ever switched, by its opcode; on the way back the first comes last. */
static void check_way(const char *old)
{
	struct arch_write on = arch_site_switch(AT, 8, AT + 0x1008, true), writes[ARCH_STEPS_MAX];
	struct arch_write off = arch_site_switch(AT, 8, AT + 0x1008, false);
	uint8_t inert = 1;

	expect_write(&on, 4, "\xe7\x82\x82\x00");
	expect_write(&off, 4, "\x93\x82\x82\x00");
	assert_int_equal(arch_site_restore(writes, 8, (const uint8_t *)old, &inert), 2);
	expect_write(&writes[0], 4, old + 4);
	expect_write(&writes[1], 0, old);
	assert_int_equal(inert, 0);
}

static void sites(void **state)
{
	check_way(NOP NOP);
	check_way("\1\0\1\0\1\0\1\0"); /* c.nop */
	check_way(NOP "\1\0\1\0");
}

/* On and off, a site tells its stub; the file's no-ops and code of others do not. */
static void expect_target(const char *code, bool known)
{
	uint64_t target;

	assert_int_equal(arch_site_target(&target, (const uint8_t *)code, AT), known);
	if (known)
		assert_true(target == AT + 0x12345800);
}

static void targets(void **state)
{
	expect_target("\x97\x62\x34\x12\xe7\x82\x02\x80", true);
	expect_target("\x97\x62\x34\x12\x93\x82\x02\x80", true);
	expect_target("\x97\x62\x34\x12" NOP, false);
	expect_target("\x97\x62\x34\x12\x67\x80\x02\x80", false); /* jr */
	expect_target("\x17\x63\x34\x12\xe7\x82\x02\x80", false); /* auipc t1 */
	expect_target(NOP NOP, false);
}

/*
 * auipc t3, 0; lw t4, 20(t3); add t3, t3, t4; jr t3; the stub's first instruction; the distance to where it leads.
 * The stub itself begins with mv t1, ra.
 */
#define MV     "\x13\x83\x00\x00"
#define VENEER "\x17\x0e\x00\x00\x83\x2e\x4e\x01\x33\x0e\xde\x01\x67\x00\x0e\x00"

static void put(uint8_t *code, const struct arch_write *write)
{
	memcpy(code + write->offset, write->bytes, write->size);
}

static void expect_head(const uint8_t *code, bool led, uint64_t target)
{
	struct arch_head head;

	assert_true(arch_head_read(&head, code, AT));
	assert_int_equal(head.led, led);
	assert_true(head.target == target);
}

/* A stub that was built leads to itself, then elsewhere, then to itself again, one aligned word at a time. */
static void heads(void **state)
{
	uint8_t code[ARCH_STUB_HEAD_BYTES] = {0};
	struct arch_write write;

	memcpy(code + ARCH_VENEER_BYTES, MV, 4);
	arch_veneer_make(code);
	assert_memory_equal(code, VENEER MV "\x18\x00\x00\x00" MV, sizeof(code));
	expect_head(code, false, AT);
	assert_true(arch_veneer_lead(&write, AT, AT + 0x1000));
	expect_write(&write, 20, "\x18\x10\x00\x00");
	put(code, &write);
	expect_head(code, false, AT);
	write = arch_head_switch(code, true);
	expect_write(&write, 24, "\x6f\xf0\x9f\xfe"); /* j .-24 */
	put(code, &write);
	expect_head(code, true, AT + 0x1000);
	assert_true(arch_veneer_lead(&write, AT, AT - 0x12345678));
	put(code, &write);
	expect_head(code, true, AT - 0x12345678);
	write = arch_head_switch(code, false);
	expect_write(&write, 24, MV);
	put(code, &write);
	expect_head(code, false, AT);
	assert_true(arch_veneer_lead(&write, AT, AT - 24 + 0x7fffffff));
	assert_false(arch_veneer_lead(&write, AT, AT - 24 + 0x80000000));
	assert_true(arch_veneer_lead(&write, AT, AT - 24 - 0x80000000));
	assert_false(arch_veneer_lead(&write, AT, AT - 24 - 0x80000001));
}

/* Each bit of the instructions matters, of the veneer and of the stub's first one. */
static void heads_of_others(void **state)
{
	uint8_t code[ARCH_STUB_HEAD_BYTES] = {0};
	struct arch_head head;

	memcpy(code + ARCH_VENEER_BYTES, MV, 4);
	arch_veneer_make(code);
	for (unsigned bit = 0; bit < 8 * sizeof(code); bit++) {
		code[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(arch_head_read(&head, code, AT), bit / 32 == 5);
		code[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jumps),	   cmocka_unit_test(leads),   cmocka_unit_test(sites),
		cmocka_unit_test(hooks),	   cmocka_unit_test(targets), cmocka_unit_test(heads),
		cmocka_unit_test(heads_of_others), cmocka_unit_test(islands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
