/*
 * The analysis of stock functions on RISC-V 64: small images made by hand, one for each rule, and blocks.
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
#define TABLES	   0x7000u
#define FRAMES	   0x8000u
#define HALVES_MAX 512
#define STARTS_MAX 24

#define LOWER_SP   0x1141 /* addi sp, sp, -16 */
#define SAVE	   0xe406 /* sd ra, 8(sp) */
#define RESTORE	   0x60a2 /* ld ra, 8(sp) */
#define RAISE_SP   0x0141 /* addi sp, sp, 16 */
#define RET	   0x8082
#define LI	   0x4505 /* li a0, 1 */
#define C_NOP	   0x0001
#define MV_A0_RA   0x8506
#define MV_T0_RA   0x8286
#define MV_A0_T0   0x8516
#define JR_T0	   0x8282
#define JR_A5	   0x8782
#define JALR_A5	   0x9782
#define READ_SAVED 0x6522 /* ld a0, 8(sp) */
#define ZERO_SAVED 0xe402 /* sd zero, 8(sp) */

/* Instructions of four bytes, as two halves. */
#define W(word)			     (uint16_t)((word)&0xffff), (uint16_t)((uint32_t)(word) >> 16)
#define LI4			     W(0x00100513)
#define LPAD			     W(0x00000017)
#define AUIPC(rd)		     W(0x00000017u | (rd) << 7)
#define ADDI(rd, imm)		     W(0x00000013u | (rd) << 7 | (rd) << 15 | ((uint32_t)(imm)&0xfff) << 20)
#define LUI(rd, page)		     W(0x00000037u | (rd) << 7 | (uint32_t)(page) << 12)
#define LW(rd)			     W(0x00002003u | (rd) << 7 | (rd) << 15)
#define JALR(rd, rs)		     W(0x00000067u | (rd) << 7 | (rs) << 15)
#define JALR_BY(rd, rs, imm)	     W(0x00000067u | (rd) << 7 | (rs) << 15 | ((uint32_t)(imm)&0xfff) << 20)
#define FIELD(value, low, count, to) (((uint32_t)(value) >> (low) & ((1u << (count)) - 1)) << (to))
#define JAL(rd, to)                                                                                                    \
	W(0x6fu | (rd) << 7 | FIELD(to, 12, 8, 12) | FIELD(to, 11, 1, 20) | FIELD(to, 1, 10, 21) | FIELD(to, 20, 1, 31))
#define BEQZ_A0(to)                                                                                                    \
	W(0x63u | 10u << 15 | FIELD(to, 11, 1, 7) | FIELD(to, 1, 4, 8) | FIELD(to, 5, 6, 25) | FIELD(to, 12, 1, 31))

enum { ZERO, RA, T0 = 5, T1, A4 = 14, A5 };

#define CODE(...)  (const uint16_t[]){__VA_ARGS__}, sizeof((const uint16_t[]){__VA_ARGS__}) / 2
#define ROWS(...)  (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define NO_ROWS	   (const uint8_t *)"", 0
#define SAVED_ROWS ROWS(0x42, 0x0e, 16, 0x42, 0x81, 1) /* CFA = sp + 16 behind 2 bytes, ra at CFA - 8 behind 4 */

/* An object under construction. */
struct made {
	uint16_t text[HALVES_MAX];
	uint8_t frames[2048];
	int32_t tables[4];
	struct stock_section sections[3];
	struct stock_symbol symbols[STARTS_MAX];
	struct stock_image image;
	size_t halves, frames_size;
	bool packed; /* no padding in front of a function; else they lie at multiples of 16 */
	struct stock_list list;
};

static void put(struct made *made, const void *bytes, size_t size)
{
	assert_true(made->frames_size + size <= sizeof(made->frames));
	memcpy(made->frames + made->frames_size, bytes, size);
	made->frames_size += size;
}

static void put32(struct made *made, uint32_t value)
{
	put(made, &value, sizeof(value));
}

/* A CIE as gcc's: CFA = sp, the return address in ra. */
static void begin(struct made *made)
{
	static const uint8_t cie[] = {0x10, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 1, 1, 0x1b, 0x0c, 2, 0};

	*made = (struct made){.image.machine = EM_RISCV};
	put(made, cie, sizeof(cie));
}

static uint64_t next(const struct made *made)
{
	return TEXT + 2 * (made->packed ? made->halves : (made->halves + 7) / 8 * 8);
}

/* A part, or a function that nothing but its entry tells of. */
static uint64_t part(struct made *made, const uint16_t *code, size_t count, const uint8_t *rows, size_t rows_size)
{
	uint64_t address = next(made);
	uint8_t padded[11] = {0};

	made->halves = (address - TEXT) / 2;
	assert_true(made->halves + count <= HALVES_MAX && rows_size <= sizeof(padded));
	memcpy(made->text + made->halves, code, count * 2);
	made->halves += count;
	memcpy(padded, rows, rows_size);
	put32(made, 24);
	put32(made, (uint32_t)made->frames_size);
	put32(made, (uint32_t)(address - (FRAMES + made->frames_size)));
	put32(made, (uint32_t)count * 2);
	put(made, "", 1); /* no augmentation data */
	put(made, padded, sizeof(padded));
	return address;
}

static uint64_t function(struct made *made, const uint16_t *code, size_t count, const uint8_t *rows, size_t rows_size)
{
	uint64_t address = part(made, code, count, rows, rows_size);

	assert_true(made->image.symbol_count < STARTS_MAX);
	made->symbols[made->image.symbol_count++] =
		(struct stock_symbol){.address = address, .size = (uint32_t)count * 2};
	return address;
}

static void find(struct made *made)
{
	const uint8_t *text = (const uint8_t *)made->text, *tables = (const uint8_t *)made->tables;

	made->halves = (next(made) - TEXT) / 2;
	made->sections[0] = (struct stock_section){TEXT, made->halves * 2, text, true, false};
	made->sections[1] = (struct stock_section){TABLES, sizeof(made->tables), tables, false, false};
	made->sections[2] = (struct stock_section){FRAMES, made->frames_size, made->frames, false, false};
	made->image.sections = made->sections;
	made->image.section_count = 3;
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
	assert_int_equal(function->jump, 8);
}

/* A short jump to another head's island. */
static void expect_short(const struct made *made, uint64_t address, unsigned length)
{
	const struct stock_function *function = at(made, address);

	expect(made, address, STOCK_OK);
	assert_int_equal(function->head, address);
	assert_int_equal(function->length, length);
	assert_int_equal(function->jump, 4);
	assert_int_equal(function->host, 0);
}

static void end(struct made *made)
{
	free(made->list.functions);
}

static void heads(void **state)
{
	struct made made;
	uint64_t plain, longer, tiny, padded, looped, behind, itself, first_call, call, exclusive;

	begin(&made);
	plain = function(&made, CODE(LI, LI, LI4, RET), NO_ROWS);
	longer = function(&made, CODE(LI, LI, LI, LI4, RET), NO_ROWS);
	tiny = function(&made, CODE(LI, RET), NO_ROWS); /* and padding */
	padded = function(&made, CODE(LPAD, LI4, LI4, RET), NO_ROWS);
	looped = function(&made, CODE(LI, LI4, LI, JAL(ZERO, -6)), NO_ROWS); /* to the second one */
	behind = function(&made, CODE(LI, LI4, LI, LI, BEQZ_A0(-2), RET), NO_ROWS);
	itself = function(&made, CODE(BEQZ_A0(6), LI, LI, LI, RET), NO_ROWS); /* a branch within the head */
	first_call = function(&made, CODE(JAL(RA, -64), LI4, RET), NO_ROWS);
	call = function(&made, CODE(LOWER_SP, SAVE, JAL(RA, -64), RESTORE, RAISE_SP, RET), SAVED_ROWS);
	exclusive = function(&made, CODE(W(0x1005352f) /* lr.d a0, (a0) */, LI4, RET), NO_ROWS);
	find(&made);
	expect_head(&made, plain, plain, 8);
	expect_head(&made, longer, longer, 10);
	expect_head(&made, tiny, tiny, 8);
	expect_head(&made, padded, padded + 4, 8);
	expect(&made, looped, STOCK_LED_INTO);
	expect_head(&made, behind, behind, 8);
	expect_short(&made, itself, 4);
	expect_short(&made, first_call, 4);
	expect_head(&made, call, call, 8);
	expect(&made, exclusive, STOCK_CANNOT_MOVE);
	end(&made);
}

static void functions_without_room(void **state)
{
	struct made made;
	uint64_t tiny, other, no_op;

	begin(&made);
	made.packed = true;
	tiny = function(&made, CODE(LI, LI, RET), NO_ROWS);	   /* six bytes, and the next function */
	other = function(&made, CODE(LI, LI4, LI4, RET), NO_ROWS); /* at no multiple of 4 */
	no_op = function(&made, CODE(LI, RET), NO_ROWS);
	made.text[made.halves++] = C_NOP;
	made.text[made.halves++] = 0;
	function(&made, CODE(LI4, LI4, RET), NO_ROWS);
	find(&made);
	assert_int_equal(other % 4, 2);
	expect_short(&made, tiny, 4);
	assert_int_equal(at(&made, other)->host, 12);
	expect_head(&made, other, other, 10);
	expect_head(&made, no_op, no_op, 8);
	end(&made);
}

/* What may have an island: 12 bytes that nothing leads into, and none that a call would return into. */
static void hosts_of_islands(void **state)
{
	struct made made;
	uint64_t whole, longer, looped, call, called, ends, padded;

	begin(&made);
	made.packed = true;
	whole = function(&made, CODE(LI4, LI4, LI4, RET), NO_ROWS);
	longer = function(&made, CODE(LI, LI4, LI4, LI4, RET), NO_ROWS);
	looped = function(&made, CODE(LI4, LI4, LI, LI, BEQZ_A0(-2), RET), NO_ROWS); /* to byte 10 */
	call = function(&made, CODE(LOWER_SP, SAVE, JAL(RA, -0x800), RESTORE, RAISE_SP, RET), SAVED_ROWS);
	called = function(&made, CODE(LOWER_SP, SAVE, LI4, JAL(RA, -0x800), RESTORE, RAISE_SP, RET), SAVED_ROWS);
	ends = function(&made, CODE(LI4, LI4, RET), NO_ROWS);
	padded = function(&made, CODE(LPAD, LI4, LI4, LI4, RET), NO_ROWS);
	find(&made);
	assert_int_equal(at(&made, whole)->host, 12);
	assert_int_equal(at(&made, longer)->host, 14);
	assert_int_equal(at(&made, looped)->host, 0);
	assert_int_equal(at(&made, call)->host, 0);
	assert_int_equal(at(&made, called)->host, 12);
	assert_int_equal(at(&made, ends)->host, 0);
	assert_int_equal(at(&made, padded)->host, 12);
	expect_head(&made, looped, looped, 8);
	expect_head(&made, padded, padded + 4, 8);
	end(&made);
}

/* A short jump needs a host, and bytes 2 and 3 that nothing leads into. */
static void short_jumps(void **state)
{
	struct made made;
	uint64_t tiny, loop, late, one;

	for (unsigned host = 0; host < 2; host++) {
		begin(&made);
		made.packed = true;
		tiny = function(&made, CODE(LI, RET), NO_ROWS);
		one = function(&made, CODE(RET), NO_ROWS);
		loop = function(&made, CODE(LI, LI, BEQZ_A0(-2), RET), NO_ROWS);
		late = function(&made, CODE(LI4, LI, BEQZ_A0(-2), RET), NO_ROWS);
		if (host)
			function(&made, CODE(LI4, LI4, LI4, RET), NO_ROWS);
		function(&made, CODE(LI4, LI4, RET), NO_ROWS);
		find(&made);
		expect(&made, one, STOCK_TOO_SHORT);
		expect(&made, loop, STOCK_LED_INTO);
		if (host) {
			expect_short(&made, tiny, 4);
			expect_short(&made, late, 4);
		} else {
			expect(&made, tiny, STOCK_TOO_SHORT);
			expect(&made, late, STOCK_TOO_SHORT);
		}
		end(&made);
	}
}

static void return_addresses_in_ra(void **state)
{
	struct made made;
	uint64_t kept[6], fine[6], jumper, far_jumper;

	begin(&made);
	kept[0] = function(&made, CODE(MV_A0_RA, LI, LI4, RET), NO_ROWS);
	kept[1] = function(&made, CODE(W(0x00153423) /* sd ra, 8(a0) */, LI4, RET), NO_ROWS);
	kept[2] = function(&made, CODE(W(0x0000b503) /* ld a0, 0(ra) */, LI4, RET), NO_ROWS);
	kept[3] = function(&made, CODE(W(0x00408513) /* addi a0, ra, 4 */, LI4, RET), NO_ROWS);
	kept[4] = function(&made, CODE(MV_T0_RA, LI, LI4, MV_A0_T0, RET), NO_ROWS);
	kept[5] = function(&made, CODE(LOWER_SP, SAVE, LI4, MV_A0_RA, RESTORE, RAISE_SP, RET), SAVED_ROWS);
	jumper = function(&made, CODE(LI4, JAL(ZERO, -36)), NO_ROWS);			     /* to kept[4] */
	far_jumper = function(&made, CODE(AUIPC(T1), JALR_BY(ZERO, T1, -48), LI4), NO_ROWS); /* to kept[4] */
	fine[0] = function(&made, CODE(LI4, LI4, RET), NO_ROWS);
	fine[1] = function(&made, CODE(LOWER_SP, SAVE, LI4, RESTORE, RAISE_SP, RET), SAVED_ROWS);
	fine[2] = function(&made, CODE(MV_T0_RA, LI, LI4, JR_T0), NO_ROWS);
	fine[3] = function(&made, CODE(LOWER_SP, SAVE, LI4, JALR_A5, MV_A0_RA, RESTORE, RAISE_SP, RET), SAVED_ROWS);
	fine[4] = function(&made, CODE(AUIPC(RA), JALR_BY(RA, RA, 64), LI4), NO_ROWS);
	fine[5] = function(&made, CODE(LI4, LI4, JR_A5), NO_ROWS);
	find(&made);
	for (size_t i = 0; i < 6; i++)
		expect(&made, kept[i], STOCK_RETURN_ADDRESS);
	expect(&made, jumper, STOCK_RETURN_ADDRESS);
	expect(&made, far_jumper, STOCK_RETURN_ADDRESS);
	for (size_t i = 0; i < 6; i++)
		expect(&made, fine[i], STOCK_OK);
	end(&made);
}

/* In an object without unwind tables the instructions alone tell. */
static void return_addresses_without_rows(void **state)
{
	struct made made;
	uint64_t kept, fine;

	begin(&made);
	kept = function(&made, CODE(LOWER_SP, SAVE, LI4, MV_A0_RA, RESTORE, RAISE_SP, RET), NO_ROWS);
	fine = function(&made, CODE(LOWER_SP, SAVE, LI4, JALR_A5, RESTORE, RAISE_SP, RET), NO_ROWS);
	made.frames_size = 0;
	find(&made);
	expect(&made, kept, STOCK_RETURN_ADDRESS);
	expect(&made, fine, STOCK_OK);
	end(&made);
}

static void return_addresses_in_memory(void **state)
{
	struct made made;
	uint64_t read, written, by_frame, resolver, elsewhere;

	begin(&made);
	read = function(&made, CODE(LOWER_SP, SAVE, LI4, READ_SAVED, RET), SAVED_ROWS);
	written = function(&made, CODE(LOWER_SP, SAVE, LI4, ZERO_SAVED, RET), SAVED_ROWS);
	/* CFA = s0, ra at CFA - 8: ld a1, -8(s0) */
	by_frame = function(&made, CODE(LOWER_SP, SAVE, LI4, W(0xff843583), RET), ROWS(0x44, 0x0c, 8, 0, 0x81, 1));
	resolver = function(&made, CODE(LI4, LI4, RET), ROWS(0x44, 0x11, 1, 0x7f)); /* ra at CFA + 8 */
	elsewhere = function(&made, CODE(LOWER_SP, SAVE, LI4, 0x6502 /* ld a0, 0(sp) */, RET), SAVED_ROWS);
	find(&made);
	expect(&made, read, STOCK_RETURN_ADDRESS);
	expect(&made, written, STOCK_RETURN_ADDRESS);
	expect(&made, by_frame, STOCK_RETURN_ADDRESS);
	expect(&made, resolver, STOCK_RETURN_ADDRESS);
	expect(&made, elsewhere, STOCK_OK);
	end(&made);
}

/* Stubs change temporaries: something must tell that a start is no part of a function. */
static void parts_are_no_functions(void **state)
{
	struct made made;
	uint64_t alone, called, far_called, pointed, spread, by_t0;

	begin(&made);
	alone = part(&made, CODE(LI4, LI4, RET), NO_ROWS);
	called = part(&made, CODE(LI4, LI4, RET), NO_ROWS);
	far_called = part(&made, CODE(LI4, LI4, RET), NO_ROWS);
	pointed = part(&made, CODE(LI4, LI4, RET), NO_ROWS);
	spread = part(&made, CODE(LI4, LI4, RET), NO_ROWS);
	by_t0 = function(&made, CODE(LI4, LI4, RET), NO_ROWS);
	function(&made, CODE(LI4, JAL(RA, -84), AUIPC(RA), JALR_BY(RA, RA, -72), RET), NO_ROWS);
	/* auipc and addi, and once another instruction between them */
	function(&made, CODE(AUIPC(A5), ADDI(A5, -80), AUIPC(A5), LI4, ADDI(A5, -72), RET), NO_ROWS);
	function(&made, CODE(JAL(T0, -80), LI4, RET), NO_ROWS);
	find(&made);
	expect(&made, alone, STOCK_FRAGMENT);
	expect(&made, called, STOCK_OK);
	expect(&made, far_called, STOCK_OK);
	expect(&made, pointed, STOCK_OK);
	expect(&made, spread, STOCK_OK);
	expect(&made, by_t0, STOCK_FRAGMENT); /* a routine that returns by t0, as -msave-restore has them */
	end(&made);
}

static void callers_that_put_values_into_temporaries(void **state)
{
	struct made made;
	uint64_t stores, returns, later, jumped, writes, chain;

	begin(&made);
	stores = function(&made, CODE(LI, 0xe01a /* sd t1, 0(sp) */, LI4, RET), NO_ROWS);
	returns = function(&made, CODE(LI4, LI4, JR_T0), NO_ROWS);
	later = function(&made, CODE(LI4, LI4, BEQZ_A0(6), 0x951a /* add a0, a0, t1 */, RET), NO_ROWS);
	jumped = function(&made, CODE(LI4, LI4, JAL(ZERO, 6), RET, 0x951a, RET), NO_ROWS);
	writes = function(&made, CODE(0x4309 /* li t1, 2 */, 0x951a, LI4, RET), NO_ROWS);
	chain = function(&made, CODE(0x951e /* add a0, a0, t2 */, LI, LI4, RET), NO_ROWS); /* stubs keep it */
	find(&made);
	expect(&made, stores, STOCK_OWN_RULES);
	expect(&made, returns, STOCK_OWN_RULES);
	expect(&made, later, STOCK_OWN_RULES);
	expect(&made, jumped, STOCK_OWN_RULES);
	expect(&made, writes, STOCK_OK);
	expect(&made, chain, STOCK_OK);
	end(&made);
}

/* A table of distances, and in an object of a fixed address of addresses. */
static void jump_tables(void **state)
{
	struct made made;
	uint64_t switched;

	for (unsigned fixed = 0; fixed < 2; fixed++) {
		for (int32_t into = 4; into <= 8; into += 4) {
			begin(&made);
			made.image.fixed = fixed;
			if (fixed)
				switched = function(&made, CODE(LI, LI, LI4, LUI(A4, 7), ADDI(A4, 0), LW(A5), JR_A5),
						    NO_ROWS);
			else /* 0x6000 pages from 0x1008 */
				switched = function(
					&made, CODE(LI, LI, LI4, W(0x00006017 | A4 << 7), ADDI(A4, -8), LW(A5), JR_A5),
					NO_ROWS);
			function(&made, CODE(LI4, LI4, LI4, RET), NO_ROWS); /* a host */
			made.tables[0] = (int32_t)(switched + (uint64_t)into - (fixed ? 0 : TABLES));
			find(&made);
			expect(&made, switched, STOCK_OK);
			assert_int_equal(at(&made, switched)->jump, into == 4 ? 4 : 8);
			end(&made);
		}
	}
}

/* The region's bytes for one block, far from its head. */
static uint8_t *make(struct made *made, struct stock_block *block, struct stock_layout *layout)
{
	const uint64_t base = 0x5500000000, region = base - 0x10000000;
	uint8_t *bytes;

	find(made);
	expect_head(made, block->head, block->head, block->length);
	assert_int_equal(stock_measure(&made->image, block, 1), 0);
	assert_true(block->need.size);
	assert_int_equal(stock_layout(layout, &made->image, block, 1), 0);
	bytes = malloc(layout->size);
	assert_non_null(bytes);
	assert_int_equal(stock_make(bytes, layout, &made->image, block, 1, region, base), 0);
	return bytes;
}

static void expect_words(const uint8_t *at, const uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t word;

		memcpy(&word, at + 4 * i, sizeof(word));
		if (word != words[i])
			fail_msg("word %zu is %#x, not %#x", i, word, words[i]);
	}
}

/* Site, instructions, and a jump back by t1; the rows are at the moved instructions. */
static void a_block(void **state)
{
	static const uint32_t whole[] = {0x00000013, 0x00000013, SAVE << 16 | LOWER_SP,
					 0x00100513, 0x10001317, /* auipc t1 */ 0xfe830067 /* jr */};
	struct stock_block block = {.length = 8};
	struct stock_layout layout;
	struct made made;
	uint8_t *bytes;

	begin(&made);
	block.head = function(&made, CODE(LOWER_SP, SAVE, LI4, RESTORE, RAISE_SP, RET), SAVED_ROWS);
	bytes = make(&made, &block, &layout);
	expect_words(bytes + block.offset, whole, sizeof(whole) / sizeof(whole[0]));
	assert_non_null(memmem(bytes + layout.header_off, layout.header_size, "\x4a\x0e\x10\x42\x81\1", 6));
	free(bytes);
	end(&made);
}

/* A register that the head's own instructions name is not the one that jumps take. */
static void a_block_of_a_head_that_uses_t1(void **state)
{
	static const uint32_t whole[] = {0x00000013,
					 0x00000013,
					 0x4309 | LI << 16,
					 0x00051863 /* bnez a0, 16 */,
					 0x10001e17 /* auipc t3 */,
					 0x004e0e13 /* addi t3, t3, 4 */,
					 0x000e0067 /* jr t3 */,
					 0x10001e17,
					 0xfdce0067 /* jr -36(t3) */};
	struct stock_block block = {.length = 8};
	struct stock_layout layout;
	struct made made;
	uint8_t *bytes;

	begin(&made);
	block.head = function(&made, CODE(0x4309 /* li t1, 2 */, LI, BEQZ_A0(32), LI4, RET), NO_ROWS);
	bytes = make(&made, &block, &layout);
	expect_words(bytes + block.offset, whole, sizeof(whole) / sizeof(whole[0]));
	free(bytes);
	end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads),
		cmocka_unit_test(functions_without_room),
		cmocka_unit_test(hosts_of_islands),
		cmocka_unit_test(short_jumps),
		cmocka_unit_test(return_addresses_in_ra),
		cmocka_unit_test(return_addresses_without_rows),
		cmocka_unit_test(return_addresses_in_memory),
		cmocka_unit_test(parts_are_no_functions),
		cmocka_unit_test(callers_that_put_values_into_temporaries),
		cmocka_unit_test(jump_tables),
		cmocka_unit_test(a_block),
		cmocka_unit_test(a_block_of_a_head_that_uses_t1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
