/*
 * The analysis of stock functions on AArch64: small images made by hand, one for each rule, and a block.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/stock/stock.h"

#define TEXT	   0x1000u
#define FRAMES	   0x8000u
#define WORDS_MAX  256
#define STARTS_MAX 16

#define NOP	    0xd503201fu
#define RET	    0xd65f03c0u
#define BTI_C	    0xd503245fu
#define PACIASP	    0xd503233fu
#define PACIBSP	    0xd503237fu
#define XPACLRI	    0xd50320ffu
#define MOV_X0_1    0xd2800020u
#define SAVE	    0xa9bf7bfdu /* stp x29, x30, [sp, #-16]! */
#define RESTORE	    0xa8c17bfdu /* ldp x29, x30, [sp], #16 */
#define B(words)    (0x14000000u | ((uint32_t)(words)&0x03ffffff))
#define BL(words)   (0x94000000u | ((uint32_t)(words)&0x03ffffff))
#define WORDS(...)  (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4
#define ROWS(...)   (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define NO_ROWS	    (const uint8_t *)"", 0
#define SAVED_ROWS  ROWS(0x41, 0x0e, 16, 0x9d, 2, 0x9e, 1) /* behind the first word: CFA = sp + 16, x30 at CFA - 8 */
#define CALLER_ROWS ROWS(0x41, 0x11, 30, 0x7f)		   /* behind it: x30 at CFA + 8 */

/* An object under construction: functions at multiples of 16. */
struct made {
	uint32_t text[WORDS_MAX];
	uint8_t frames[1024];
	struct stock_section sections[2];
	struct stock_symbol symbols[STARTS_MAX];
	struct stock_image image;
	size_t words, frames_size, cie;
	struct stock_list list;
};

static void put(struct made *made, const void *bytes, size_t size)
{
	memcpy(made->frames + made->frames_size, bytes, size);
	made->frames_size += size;
}

static void put32(struct made *made, uint32_t value)
{
	put(made, &value, sizeof(value));
}

/* A CIE as gcc's: CFA = sp, the return address in x30. */
static void begin(struct made *made)
{
	static const uint8_t cie[] = {0x10, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0};

	*made = (struct made){.image.machine = EM_AARCH64};
	put(made, cie, sizeof(cie));
}

/* The same for functions that sign with the second key. */
static void begin_second_key(struct made *made)
{
	static const uint8_t cie[] = {0x14, 0, 0,    0,	 0, 0,	  0,	0,  1, 'z', 'R', 'B',
				      0,    4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0, 0,   0,	 0};

	made->cie = made->frames_size;
	put(made, cie, sizeof(cie));
}

/* A part, or a function that nothing but its entry tells of. */
static uint64_t part(struct made *made, const uint32_t *code, size_t count, const uint8_t *rows, size_t rows_size)
{
	uint8_t padded[7] = {0};
	uint64_t address;

	made->words = (made->words + 3) / 4 * 4;
	address = TEXT + made->words * 4;
	memcpy(made->text + made->words, code, count * 4);
	made->words += count;
	memcpy(padded, rows, rows_size);
	put32(made, 20);
	put32(made, (uint32_t)(made->frames_size - made->cie));
	put32(made, (uint32_t)(address - (FRAMES + made->frames_size)));
	put32(made, (uint32_t)count * 4);
	put(made, "", 1); /* no augmentation data */
	put(made, padded, sizeof(padded));
	return address;
}

static uint64_t function(struct made *made, const uint32_t *code, size_t count, const uint8_t *rows, size_t rows_size)
{
	uint64_t address = part(made, code, count, rows, rows_size);

	made->symbols[made->image.symbol_count++] =
		(struct stock_symbol){.address = address, .size = (uint32_t)count * 4};
	return address;
}

static void find(struct made *made)
{
	const uint8_t *text = (const uint8_t *)made->text;

	made->words = (made->words + 3) / 4 * 4;
	made->sections[0] = (struct stock_section){TEXT, made->words * 4, text, true, false};
	made->sections[1] = (struct stock_section){FRAMES, made->frames_size, made->frames, false, false};
	made->image.sections = made->sections;
	made->image.section_count = 2;
	made->image.lo = TEXT;
	made->image.hi = FRAMES + made->frames_size;
	made->image.frames = (struct cfi_section){made->frames, made->frames_size, FRAMES};
	made->image.symbols = made->symbols;
	assert_int_equal(stock_find(&made->list, &made->image), 0);
}

static const struct stock_function *at(const struct made *made, uint64_t address)
{
	for (size_t i = 0; i < made->list.count; i++)
		if (made->list.functions[i].address == address)
			return &made->list.functions[i];
	fail_msg("no function at %#llx", (unsigned long long)address);
	return NULL;
}

static void expect(const struct made *made, uint64_t address, enum stock_verdict verdict)
{
	const struct stock_function *function = at(made, address);

	if (function->verdict != verdict)
		fail_msg("%#llx: %d, not %d", (unsigned long long)address, function->verdict, verdict);
}

static void expect_head(const struct made *made, uint64_t address, uint64_t head, unsigned length)
{
	const struct stock_function *function = at(made, address);

	expect(made, address, STOCK_OK);
	assert_int_equal(function->head, head);
	assert_int_equal(function->length, length);
	assert_int_equal(function->jump, length);
}

static void end(struct made *made)
{
	free(made->list.functions);
}

static void heads(void **state)
{
	struct made made;
	uint64_t plain, padded, only_return, is_signed, second, looped, pad_looped, exclusive, short_one;

	begin(&made);
	plain = function(&made, WORDS(MOV_X0_1, RET), NO_ROWS);
	padded = function(&made, WORDS(BTI_C, MOV_X0_1, RET), NO_ROWS);
	only_return = function(&made, WORDS(BTI_C, RET), NO_ROWS);
	is_signed = function(&made, WORDS(PACIASP, SAVE, MOV_X0_1, RET), NO_ROWS);
	second = function(&made, WORDS(PACIBSP, SAVE, MOV_X0_1, RET), NO_ROWS);
	looped = function(&made, WORDS(PACIASP, MOV_X0_1, MOV_X0_1, B(-2)), NO_ROWS);
	/* With sp lowered, a jump to behind the landing pad: a loop, and no tail call. */
	pad_looped = function(&made, WORDS(BTI_C, SAVE, B(-1)), ROWS(0x42, 0x0e, 16, 0x9d, 2, 0x9e, 1));
	exclusive = function(&made, WORDS(0xc85f7c00 /* ldxr x0, [x0] */, RET), NO_ROWS);
	short_one = function(&made, WORDS(PACIASP), NO_ROWS);
	find(&made);
	expect_head(&made, plain, plain, 4);
	expect_head(&made, padded, padded + 4, 4);
	expect_head(&made, only_return, only_return + 4, 4);
	expect_head(&made, is_signed, is_signed, 8);
	expect_head(&made, second, second, 8);
	expect(&made, looped, STOCK_LED_INTO);
	expect(&made, pad_looped, STOCK_LED_INTO);
	expect(&made, exclusive, STOCK_CANNOT_MOVE);
	expect(&made, short_one, STOCK_TOO_SHORT);
	end(&made);
}

static void return_addresses_in_x30(void **state)
{
	struct made made;
	uint64_t kept[7], fine[4], jumper;

	begin(&made);
	kept[0] = function(&made, WORDS(0xa905781d /* stp x29, x30, [x0, #80] */, RET), NO_ROWS);
	kept[1] = function(&made, WORDS(0xaa1e03e0 /* mov x0, x30 */, RET), NO_ROWS);
	kept[2] = function(&made, WORDS(XPACLRI, RET), NO_ROWS);
	kept[3] = function(&made, WORDS(0xca0303c4 /* eor x4, x30, x3 */, RET), NO_ROWS);
	kept[4] = function(&made, WORDS(0xf94003c0 /* ldr x0, [x30] */, RET), NO_ROWS);
	kept[5] = function(&made, WORDS(0x910003c0 /* add x0, x30, #0 */, RET), NO_ROWS);
	kept[6] = function(&made, WORDS(0xf900041e /* str x30, [x0, #8] */, RET), NO_ROWS);
	jumper = function(&made, WORDS(MOV_X0_1, B(-5)), NO_ROWS); /* to kept[6] */
	fine[0] = function(&made, WORDS(0xd28003c0 /* mov x0, #30 */, RET), NO_ROWS);
	fine[1] = function(&made, WORDS(SAVE, BL(4), RESTORE, RET), NO_ROWS);
	fine[2] = function(&made, WORDS(0xf81f0ffe /* str x30, [sp, #-16]! */, RET), NO_ROWS);
	fine[3] = function(&made, WORDS(0xd61f03c0 /* br x30 */), NO_ROWS);
	find(&made);
	for (size_t i = 0; i < 7; i++)
		expect(&made, kept[i], STOCK_RETURN_ADDRESS);
	expect(&made, jumper, STOCK_RETURN_ADDRESS);
	for (size_t i = 0; i < 4; i++)
		expect(&made, fine[i], STOCK_OK);
	end(&made);
}

static void return_addresses_in_memory(void **state)
{
	struct made made;
	uint64_t read, read_by_pair, written, resolver, elsewhere, used;

	begin(&made);
	read = function(&made, WORDS(SAVE, 0xf94007e0 /* ldr x0, [sp, #8] */, RET), SAVED_ROWS);
	read_by_pair = function(&made, WORDS(SAVE, 0xa94007e1 /* ldp x1, x1, [sp] */, RET), SAVED_ROWS);
	written = function(&made, WORDS(SAVE, 0xf90007ff /* str xzr, [sp, #8] */, RET), SAVED_ROWS);
	resolver = function(&made, WORDS(NOP, MOV_X0_1, RET), CALLER_ROWS);
	elsewhere = function(&made, WORDS(SAVE, 0xf94003e0 /* ldr x0, [sp] */, 0xf9400be0 /* [sp, #16] */, RESTORE),
			     SAVED_ROWS);
	/* Saved, x30 is a register as all others. */
	used = function(&made, WORDS(SAVE, 0xaa1e03e0 /* mov x0, x30 */, RESTORE), SAVED_ROWS);
	find(&made);
	expect(&made, read, STOCK_RETURN_ADDRESS);
	expect(&made, read_by_pair, STOCK_RETURN_ADDRESS);
	expect(&made, written, STOCK_RETURN_ADDRESS);
	expect(&made, resolver, STOCK_RETURN_ADDRESS);
	expect(&made, elsewhere, STOCK_OK);
	expect(&made, used, STOCK_OK);
	end(&made);
}

/* Stubs change x16 and x17, which a function may use across a jump to a part of it: something must tell that it is
 * none. */
static void parts_are_no_functions(void **state)
{
	struct made made;
	uint64_t alone, from_one, from_two, called, pointed, padded;

	begin(&made);
	alone = part(&made, WORDS(MOV_X0_1, RET, NOP, NOP), NO_ROWS);
	from_one = part(&made, WORDS(MOV_X0_1, RET, NOP, NOP), NO_ROWS);
	from_two = part(&made, WORDS(MOV_X0_1, RET, NOP, NOP), NO_ROWS);
	called = part(&made, WORDS(MOV_X0_1, RET, NOP, NOP), NO_ROWS);
	pointed = part(&made, WORDS(MOV_X0_1, RET, NOP, NOP), NO_ROWS);
	padded = part(&made, WORDS(BTI_C, MOV_X0_1, RET, NOP), NO_ROWS);
	function(&made, WORDS(0xb4000000 | ((uint32_t)-20 & 0x7ffff) << 5 /* cbz x0, from_one */, B(-17)), NO_ROWS);
	function(&made, WORDS(B(-20), BL(-17), 0x90000002 /* adrp x2, TEXT */, 0x91010042 /* add x2, x2, #64 */),
		 NO_ROWS);
	find(&made);
	expect(&made, alone, STOCK_FRAGMENT);
	expect(&made, from_one, STOCK_FRAGMENT);
	expect(&made, from_two, STOCK_OK);
	expect(&made, called, STOCK_OK);
	expect(&made, pointed, STOCK_OK);
	expect(&made, padded, STOCK_OK);
	end(&made);
}

/* TLS descriptors: x0 alone may change. */
static void the_loader_has_private_functions(void **state)
{
	struct made made;
	uint64_t answer, saves;

	for (unsigned loader = 0; loader < 2; loader++) {
		begin(&made);
		answer = function(&made, WORDS(BTI_C, 0xf9400400 /* ldr x0, [x0, #8] */, RET), NO_ROWS);
		saves = function(&made, WORDS(0xa9be0be1 /* stp x1, x2, [sp, #-32]! */, RET), NO_ROWS);
		made.image.loader = loader;
		find(&made);
		expect(&made, answer, loader ? STOCK_LEAVE : STOCK_OK);
		expect(&made, saves, loader ? STOCK_LEAVE : STOCK_OK);
		end(&made);
	}
}

/* The block of a function that signs its return address: it does so behind the site. */
static void a_block(void **state)
{
	static const uint8_t entry_rows[] = {0x41, 0x2d}; /* behind the first word: the return address is signed */
	const uint64_t base = 0x5500000000, region = base - 0x10000;
	struct stock_block block = {.length = 8};
	struct stock_layout layout;
	uint32_t code[4];
	struct made made;
	uint8_t *bytes;

	begin(&made);
	begin_second_key(&made);
	block.head = function(&made, WORDS(PACIBSP, SAVE, RESTORE, RET), entry_rows, sizeof(entry_rows));
	find(&made);
	expect_head(&made, block.head, block.head, 8);
	assert_int_equal(stock_measure(&made.image, &block, 1), 0);
	assert_true(block.need.size);
	assert_int_equal(stock_layout(&layout, &made.image, &block, 1), 0);
	bytes = malloc(layout.size);
	assert_non_null(bytes);
	assert_int_equal(stock_make(bytes, &layout, &made.image, &block, 1, region, base), 0);
	memcpy(code, bytes + block.offset, sizeof(code));
	assert_int_equal(code[0], NOP);
	assert_int_equal(code[1], PACIBSP);
	assert_int_equal(code[2], SAVE);
	assert_int_equal(code[3], B((int64_t)(base + block.head + 8 - region - block.offset - 12) / 4));
	/* The CIE tells of the key, and the row behind paciasp's moved form of the signature. */
	assert_non_null(memmem(bytes + layout.header_off, layout.header_size, "\1zRB\0\1", 6));
	assert_non_null(memmem(bytes + layout.header_off, layout.header_size, "\x48\x2d", 2));
	free(bytes);
	end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads),
		cmocka_unit_test(return_addresses_in_x30),
		cmocka_unit_test(return_addresses_in_memory),
		cmocka_unit_test(parts_are_no_functions),
		cmocka_unit_test(the_loader_has_private_functions),
		cmocka_unit_test(a_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
