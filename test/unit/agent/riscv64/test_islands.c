/*
 * Heads that lead to islands: written only where the island is, and whatever the order of their addresses.  The text is
 * a page that nobody runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <arch.h>
#include <patch/blocks.h>
#include <patch/poke.h>

#define TEXT_SIZE (UINT64_C(1) << 21)
#define HOST	  0x100040u
#define BEFORE	  0x2u /* nearly out of reach */
#define BEHIND	  0x1ffffeu
#define COUNT	  3u

static struct patch_poker poker;
static uint8_t *text;
static struct patch_region blocks;

static struct calltap_site head_at(uint64_t offset, uint8_t length, uint64_t island)
{
	struct calltap_site head = {
		.address = (uint64_t)text + offset,
		.id = (uint32_t)offset,
		.stub_off = 0x100,
		.flags = CALLTAP_SITE_HEAD,
		.length = length,
		.body_off = length,
		.tramp_off = (int32_t)(island - offset),
	};

	memcpy(head.old, text + offset, length);
	return head;
}

static int setup(void **state)
{
	(void)state;
	patch_poker_open(&poker);
	text = mmap(NULL, TEXT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(text, MAP_FAILED);
	blocks = (struct patch_region){(uint64_t)text - 0x10000, (uint64_t)text - 0x8000, false};
	return 0;
}

static int refill(void **state)
{
	(void)state;
	assert_int_equal(mprotect(text, TEXT_SIZE, PROT_READ | PROT_WRITE), 0); /* a poke in place takes that away */
	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = (uint8_t)(i * 7 + 1);
	return 0;
}

static void lead(struct patch_result *result, const struct calltap_site *heads, uint32_t count)
{
	assert_int_equal(patch_heads_lead(result, &poker, &blocks, heads, count, NULL), 0);
}

/* The word at a head, and whether it is a jump that leaves t1, to the island. */
static void expect_short(uint64_t offset)
{
	uint8_t code[16];

	memcpy(code, text + offset, sizeof(code));
	arch_lead_to_island(code, (uint64_t)text + offset, (uint64_t)text + HOST + 4, 0);
	assert_memory_equal(text + offset, code, 4);
}

static void expect_untouched(void)
{
	for (size_t i = 0; i < TEXT_SIZE; i++)
		if (text[i] != (uint8_t)(i * 7 + 1))
			fail_msg("byte %#zx has changed", i);
}

static void heads_and_their_host(void **state)
{
	const struct calltap_site heads[COUNT] = {head_at(BEFORE + 0x44, 4, HOST + 4), head_at(HOST, 14, HOST + 4),
						  head_at(BEHIND - 0x10, 6, HOST + 4)};
	struct patch_restored restored;
	struct patch_result result;
	uint8_t island[8];

	lead(&result, heads, COUNT);
	assert_int_equal(result.patched, COUNT);
	assert_int_equal(result.failed, 0);
	expect_short(BEFORE + 0x44);
	expect_short(BEHIND - 0x10);
	assert_memory_equal(text + HOST, "\x6f\x03\x40\x00", 4); /* jal t1, .+4 */
	arch_island_make(island, (uint64_t)text + HOST + 4, blocks.lo + CALLTAP_BLOCKS_HEAD);
	assert_memory_equal(text + HOST + 4, island, 8);
	assert_memory_equal(text + HOST + 12, heads[1].old + 12, 2);
	assert_memory_equal(text + BEHIND - 0xc, heads[2].old + 4, 2);
	/* A thread may be on its way: they stay. */
	patch_heads_restore(&restored, &poker, &blocks, heads, COUNT);
	assert_int_equal(restored.leading, COUNT);
	expect_short(BEFORE + 0x44);
}

/* Somebody else's bytes in the host: nothing leads to an island that is not there. */
static void no_host_no_heads(void **state)
{
	struct calltap_site heads[COUNT] = {head_at(0x80, 4, HOST + 4), head_at(HOST, 12, HOST + 4),
					    head_at(HOST + 0x40, 6, HOST + 4)};
	struct patch_result result;

	heads[1].old[11] ^= 1;
	lead(&result, heads, COUNT);
	assert_int_equal(result.patched, 0);
	assert_int_equal(result.failed, COUNT);
	expect_untouched();
}

/* The host is one of another region of blocks. */
static void another_regions_host(void **state)
{
	struct calltap_site heads[2] = {head_at(HOST, 12, HOST + 4), head_at(HOST + 0x40, 4, HOST + 4)};
	struct patch_region others = {blocks.lo - 0x10000, blocks.lo - 0x8000, false};
	struct patch_result result;

	assert_int_equal(patch_heads_lead(&result, &poker, &others, heads, 1, NULL), 0);
	assert_int_equal(result.patched, 1);
	lead(&result, heads + 1, 1);
	assert_int_equal(result.patched, 0);
	assert_int_equal(result.failed, 1);
	assert_memory_equal(text + HOST + 0x40, heads[1].old, 4);
}

static void refuse(struct calltap_site head)
{
	struct patch_result result;

	lead(&result, &head, 1);
	assert_int_equal(result.failed, 1);
	assert_int_equal(result.patched, 0);
	expect_untouched();
}

static void heads_without_room(void **state)
{
	refuse(head_at(HOST, 10, HOST + 4));   /* half an island */
	refuse(head_at(HOST, 2, HOST + 0x84)); /* half a jump */
	refuse(head_at(HOST, 6, HOST));	       /* no island: a long jump */
	refuse(head_at(0x10, 4, HOST + 4));    /* out of reach */
	refuse(head_at(HOST, 6, HOST + 0x85)); /* at no multiple of 2 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(heads_and_their_host, refill),
		cmocka_unit_test_setup(no_host_no_heads, refill),
		cmocka_unit_test_setup(another_regions_host, refill),
		cmocka_unit_test_setup(heads_without_room, refill),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
