/*
 * Regions of blocks: what is made for functions made by hand, and for all functions of real objects.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/x86_64/isa/block.h"
#include "real.h"

#define TEXT 0x2000u
#define BASE UINT64_C(0x555555554000)
#define AT   (BASE + 0x100000)
#define FAR  (UINT64_C(1) << 33)

/* Functions at multiples of 16. */
static const uint8_t text[] = {
	/* 0: push %rbp; mov %rsp, %rbp; sub $16, %rsp; ret */
	0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3, 0, 0, 0, 0, 0, 0, 0,
	/* 16: mov 16(%rip), %rax; ret */
	0x48, 0x8b, 0x05, 16, 0, 0, 0, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0,
	/* 32: test %edi, %edi; je 64; call 0 */
	0x85, 0xff, 0x74, 0x1c, 0xe8, 0xd7, 0xff, 0xff, 0xff, 0xc3, 0, 0, 0, 0, 0, 0,
	/* 48: ret, and padding */
	0xc3, 0x66, 0x66, 0x90, 0x90, 0x90, 0x90, 0x90, 0, 0, 0, 0, 0, 0, 0, 0,
	/* 64: a head that leads into itself */
	0x31, 0xc0, 0xeb, 0xfc, 0x90, 0x90, 0x90, 0x90, 0, 0, 0, 0, 0, 0, 0, 0,
	/* 80: mov 2G - 1 bytes from here, where the object is not */
	0x8b, 0x05, 0xff, 0xff, 0xff, 0x7f, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const struct stock_section section = {TEXT, sizeof(text), text, true, false};
static const struct stock_image image = {
	.machine = EM_X86_64, .lo = TEXT, .hi = TEXT + sizeof(text), .sections = &section, .section_count = 1};

static void each_function_has_its_block(void **state)
{
	struct stock_block blocks[] = {{.head = TEXT, .length = 8},	 {.head = TEXT + 16, .length = 7},
				       {.head = TEXT + 32, .length = 9}, {.head = TEXT + 48, .length = 5},
				       {.head = TEXT + 64, .length = 5}, {.head = TEXT + 80, .length = 6}};
	static const uint8_t first[] = {0x0f, 0x1f, 0x44, 0,	0,    0x55, 0x48, 0x89, 0xe5,
					0x48, 0x83, 0xec, 0x10, 0xe9, 0xe6, 0x1f, 0xf0, 0xff};
	static const uint8_t bare[] = {0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0xe9};
	const size_t count = sizeof(blocks) / sizeof(blocks[0]);
	struct stock_layout layout;
	uint8_t *code;

	assert_int_equal(stock_layout(&layout, &image, blocks, count), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(blocks[i].offset % 16, 0);
		assert_int_equal(blocks[i].size % 16, 0);
		assert_int_equal(blocks[i].size != 0, i < 4);
	}
	assert_int_equal(blocks[1].offset, blocks[0].offset + blocks[0].size);
	assert_true(layout.size >= layout.code_size && layout.code_size >= blocks[3].offset + blocks[3].size);
	code = malloc(layout.size);
	assert_int_equal(stock_make(code, &layout, &image, blocks, count, AT, BASE), 0);
	assert_int_equal(blocks[0].offset, STOCK_BLOCKS_HEAD);
	assert_memory_equal(code + STOCK_BLOCKS_HEAD, first, sizeof(first));
	for (uint32_t i = sizeof(first); i < blocks[0].size; i++)
		assert_int_equal(code[STOCK_BLOCKS_HEAD + i], 0xcc);
	assert_memory_equal(code + blocks[3].offset, bare, sizeof(bare));
	assert_int_equal(stock_make(code, &layout, &image, blocks, count, AT + FAR, BASE), -ERANGE);
	free(code);
}

static void nothing_is_made_of_what_is_not_there(void **state)
{
	const struct stock_image other = {.machine = EM_S390, .sections = &section, .section_count = 1};
	struct stock_block blocks[] = {{.head = TEXT - 1, .length = 8},
				       {.head = TEXT + sizeof(text) - 4, .length = 5},
				       {.head = TEXT + sizeof(text), .length = 5},
				       {.head = ~(uint64_t)0, .length = 5},
				       {.head = TEXT, .length = 7},
				       {.head = TEXT, .length = 0}};
	struct stock_layout layout;

	assert_int_equal(stock_layout(&layout, &other, blocks, 1), -ENOTSUP);
	assert_int_equal(stock_layout(&layout, &image, blocks, 6), 0);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(blocks[i].size, 0);
	assert_int_equal(layout.code_size, STOCK_BLOCKS_HEAD);
	assert_int_equal(stock_layout(&layout, &image, NULL, 0), 0);
}

static void places_are_found_both_ways(void **state)
{
	struct stock_block blocks[] = {{.head = TEXT, .length = 8}, {.head = TEXT + 32, .length = 9}};
	const struct stock_region region = {&image, AT, BASE};
	/* offset in the second head, in its block; 5 bytes of site, test, a long je, push and mov, jmp, jmp */
	static const unsigned pairs[][2] = {{2, 7}, {4, 13}};
	struct stock_layout layout;
	unsigned to;

	assert_int_equal(stock_layout(&layout, &image, blocks, 2), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(stock_into_block(&region, &blocks[1], pairs[i][0], &to));
		assert_int_equal(to, pairs[i][1]);
		assert_true(stock_out_of_block(&region, &blocks[1], pairs[i][1], &to));
		assert_int_equal(to, pairs[i][0]);
	}
	assert_true(stock_into_block(&region, &blocks[1], 0, &to));
	assert_int_equal(to, 0);
	assert_true(stock_out_of_block(&region, &blocks[1], 5, &to)); /* behind the site */
	assert_int_equal(to, 0);
	assert_true(stock_out_of_block(&region, &blocks[1], 31, &to)); /* at the jump back */
	assert_int_equal(to, 9);
	assert_false(stock_into_block(&region, &blocks[1], 3, &to));
	assert_false(stock_into_block(&region, &blocks[1], 9, &to));
	assert_false(stock_out_of_block(&region, &blocks[1], 1, &to));
	assert_false(stock_out_of_block(&region, &blocks[1], 18, &to)); /* the return address is half there */
	assert_false(stock_out_of_block(&region, &blocks[1], 36, &to));
}

/* Each block of the region: the instructions of its head, and a jump behind it, within its room. */
static void check_region(const struct real *real, const uint8_t *bytes, uint64_t at, uint64_t base)
{
	size_t made = 0;

	for (size_t i = 0; i < real->count; i++) {
		const struct stock_block *block = &real->blocks[i];
		const uint8_t *code = bytes + block->offset;
		struct isa_instruction in = {0};
		size_t end = 0, last = 0;

		if (!block->size)
			continue;
		made++;
		while (end < block->size && code[end] != 0xcc) {
			int size = x86_block_cpu.decode(&in, code + end, block->size - end, at + block->offset + end);

			assert_true(size > 0);
			last = end;
			end += (size_t)size;
			assert_true(end <= block->size);
		}
		assert_true(last > 5);
		assert_int_equal(in.kind, ISA_JUMP);
		assert_int_equal(in.target, base + block->head + block->length);
	}
	assert_true(made >= real->count - real->count / 100);
}

static void check_object(const char *path, uint64_t base)
{
	struct stock_layout layout;
	struct real real;
	uint8_t *bytes;

	if (!real_open(&real, path))
		return;
	assert_int_equal(stock_layout(&layout, &real.image, real.blocks, real.count), 0);
	bytes = malloc(layout.size);
	for (unsigned i = 0; i < 2; i++) { /* above the object, and below */
		uint64_t at = i ? base - layout.size / 4096 * 4096 - 8192 : base + real.end / 4096 * 4096 + 8192;

		assert_int_equal(stock_make(bytes, &layout, &real.image, real.blocks, real.count, at, base), 0);
		check_region(&real, bytes, at, base);
	}
	free(bytes);
	real_close(&real);
}

static void real_objects_get_blocks(void **state)
{
	check_object("/proc/self/exe", BASE);
	check_object("/lib/x86_64-linux-gnu/libc.so.6", UINT64_C(0x7ffff7c00000));
	check_object("/lib/x86_64-linux-gnu/libc.so.6", UINT64_C(0x10000000));
	check_object("/lib64/ld-linux-x86-64.so.2", UINT64_C(0x7ffff7fc0000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_function_has_its_block),
		cmocka_unit_test(nothing_is_made_of_what_is_not_there),
		cmocka_unit_test(places_are_found_both_ways),
		cmocka_unit_test(real_objects_get_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
