/*
 * The analysis of stock functions: small images made by hand, one for each rule and verdict.
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

#define TEXT	 0x1000u
#define FRAMES	 0x8000u
#define DATA	 0x9000u
#define CODE_MAX 64
#define FDES_MAX 8

/* An object under construction: functions at multiples of 16, each with an FDE unless it is told otherwise. */
struct made {
	uint8_t text[FDES_MAX * CODE_MAX], frames[1024], data[128];
	struct stock_section sections[3];
	struct stock_symbol symbols[FDES_MAX];
	struct stock_image image;
	size_t text_size, frames_size, data_size;
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

/* A CIE as gcc's: CFA = rsp + 8. */
static void begin(struct made *made)
{
	static const uint8_t cie[] = {0x14, 0,	  0,  0, 0,    0,    0, 0, 1,	 'z', 'R', 0,
				      1,    0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,   0};

	*made = (struct made){.image.machine = EM_X86_64};
	put(made, cie, sizeof(cie));
	memset(made->text, 0xcc, sizeof(made->text));
}

/* An FDE with these rows, 7 bytes at the most. */
static void frame(struct made *made, uint64_t address, uint32_t size, const uint8_t *rows, size_t rows_size)
{
	uint8_t code[7] = {0};

	memcpy(code, rows, rows_size);
	put32(made, 20);
	put32(made, (uint32_t)made->frames_size);
	put32(made, (uint32_t)(address - (FRAMES + made->frames_size)));
	put32(made, size);
	put(made, "", 1); /* no augmentation data */
	put(made, code, sizeof(code));
}

/* Code at the next multiple of 16; returns its address. */
static uint64_t code(struct made *made, const uint8_t *bytes, size_t size)
{
	uint64_t at = (made->text_size + 15) / 16 * 16;

	memcpy(made->text + at, bytes, size);
	made->text_size = at + size;
	return TEXT + at;
}

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define SLED	   0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0
#define NO_ROWS	   (const uint8_t *)"", 0

static uint64_t function(struct made *made, const uint8_t *bytes, size_t size)
{
	uint64_t address = code(made, bytes, size);

	frame(made, address, (uint32_t)size, NO_ROWS);
	return address;
}

static void find(struct made *made)
{
	size_t size = (made->text_size + 15) / 16 * 16;

	made->sections[0] = (struct stock_section){TEXT, size, made->text, true, false};
	made->sections[1] = (struct stock_section){FRAMES, made->frames_size, made->frames, false, false};
	made->sections[2] = (struct stock_section){DATA, made->data_size, made->data, false, false};
	made->image.sections = made->sections;
	made->image.section_count = 3;
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
	assert_int_equal(function->jump, 5);
}

static void end(struct made *made)
{
	free(made->list.functions);
}

/* push %rbp; mov %rsp, %rbp; sub $16, %rsp; leave; ret */
#define PLAIN BYTES(0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3)

static void heads_are_whole_instructions(void **state)
{
	struct made made;
	uint64_t plain, five, lea, padded, zeros, padded_by_code, nothing, pad;

	begin(&made);
	plain = function(&made, PLAIN);
	five = function(&made, BYTES(0xb8, 1, 0, 0, 0, 0xc3)); /* mov $1, %eax; ret */
	lea = function(&made, BYTES(0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3));
	padded = function(&made, BYTES(0x31, 0xc0, 0xc3)); /* int3 behind it */
	zeros = function(&made, BYTES(0xc3));
	memset(made.text + (zeros - TEXT) + 1, 0, 8);
	padded_by_code = code(&made, BYTES(0xc3, 0x90, 0xb8, 1, 0, 0, 0, 0xc3));
	frame(&made, padded_by_code, 1, NO_ROWS);
	nothing = code(&made, BYTES(0x90, 0x90, 0x90)); /* does not end */
	frame(&made, nothing, 3, NO_ROWS);
	pad = function(&made, BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 1, 0, 0, 0, 0xc3));
	find(&made);
	expect_head(&made, plain, plain, 8);
	expect_head(&made, five, five, 5);
	expect_head(&made, lea, lea, 7);
	expect_head(&made, padded, padded, 5);
	expect_head(&made, zeros, zeros, 5);
	expect(&made, padded_by_code, STOCK_TOO_SHORT);
	expect(&made, nothing, STOCK_TOO_SHORT);
	expect_head(&made, pad, pad + 4, 5);
	end(&made);
}

/* endbr64; ret; int3: the landing pad goes, where all of it is needed. */
static void a_landing_pad_may_be_replaced(void **state)
{
	struct made made;
	uint64_t pad;

	begin(&made);
	pad = code(&made, BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0xc3, 0xb8, 1, 0, 0, 0, 0xc3));
	frame(&made, pad, 5, NO_ROWS);
	frame(&made, pad + 5, 6, NO_ROWS);
	find(&made);
	expect_head(&made, pad, pad, 5);
	expect_head(&made, pad + 5, pad + 5, 5);
	end(&made);
}

static void jumps_lead_into_heads(void **state)
{
	struct made made;
	uint64_t own, late, back, other, start;

	begin(&made);
	own = function(&made, BYTES(0x31, 0xc0, 0xff, 0xc0, 0x39, 0xf8, 0x75, 0xfa, 0xc3)); /* jne 2 */
	late = function(&made, BYTES(0x31, 0xc0, 0x31, 0xd2, 0x90, 0xff, 0xc0, 0x39, 0xf8, 0x75, 0xfa, 0xc3));
	back = function(&made, BYTES(0x85, 0xff, 0x0f, 0x1f, 0x44, 0, 0, 0xff, 0xcf, 0x75, 0xf5, 0xc3)); /* jne 0 */
	other = function(&made, BYTES(0xff, 0xc7, 0xff, 0xc7, 0xff, 0xc7, 0xc3));
	start = function(&made, BYTES(0x90, 0xeb, 0)); /* jmp other + 2 */
	made.text[start - TEXT + 2] = (uint8_t)(other + 2 - (start + 3));
	find(&made);
	expect(&made, own, STOCK_LED_INTO);
	expect_head(&made, late, late, 5); /* the target is the first byte behind */
	expect_head(&made, back, back, 7);
	expect(&made, other, STOCK_LED_INTO);
	expect_head(&made, start, start, 5);
	end(&made);
}

static void a_later_displaced_instruction_may_be_led_to(void **state)
{
	struct made made;
	uint64_t late;

	begin(&made);
	/* mov %esp, %eax..: 3 + 3 bytes replaced; a jump to byte 6 is none into the jump's 5 */
	late = function(&made, BYTES(0x48, 0x89, 0xf8, 0x48, 0x89, 0xf1, 0xff, 0xc8, 0x75, 0xfc, 0xc3));
	find(&made);
	expect_head(&made, late, late, 6);
	end(&made);
}

static void calls_do_not_return_into_the_jump(void **state)
{
	struct made made;
	uint64_t indirect, direct, self;

	begin(&made);
	indirect = function(&made, BYTES(0xff, 0xd0, 0x31, 0xc0, 0x31, 0xc0, 0xc3));
	direct = function(&made, BYTES(0xe8, 0x20, 0, 0, 0, 0xc3));
	self = function(&made, BYTES(0xe8, 0xfb, 0xff, 0xff, 0xff, 0xc3));
	find(&made);
	expect(&made, indirect, STOCK_CANNOT_MOVE);
	expect_head(&made, direct, direct, 5);
	expect(&made, self, STOCK_LED_INTO);
	end(&made);
}

/* XRay's runtime changes the eleven bytes: the head is behind them, or there is none. */
static void a_sled_stays(void **state)
{
	struct made made;
	uint64_t plain, padded, led, words[4];

	begin(&made);
	plain = function(&made, BYTES(SLED, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0xc3));
	padded = function(&made, BYTES(0xf3, 0x0f, 0x1e, 0xfa, SLED, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0xc3));
	/* A loop begins within the five bytes behind the sled: 3: jmp there. */
	led = function(&made, BYTES(SLED, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0xeb, 0xfc));
	words[0] = plain;
	words[1] = plain + 3;
	words[2] = led;
	words[3] = led + 3;
	made.image.relocated = words;
	made.image.relocated_count = 4;
	find(&made);
	expect_head(&made, plain, plain + 11, 5);
	expect_head(&made, padded, padded + 15, 5);
	expect(&made, led, STOCK_RELOCATED);
	end(&made);
}

static void addresses_from_elsewhere_lead_in(void **state)
{
	struct made made;
	uint64_t pointed, taken, table, relocated, word, jumper, pointers[1], relocs[1];
	int32_t distance;
	uint32_t at_data = DATA;

	begin(&made);
	pointed = function(&made, PLAIN);
	taken = function(&made, PLAIN);
	relocated = function(&made, PLAIN);
	word = function(&made, PLAIN);
	/* lea taken + 1(%rip), %rax; ret */
	jumper = function(&made, BYTES(0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3));
	distance = (int32_t)(taken + 1 - (jumper + 7));
	memcpy(made.text + (jumper - TEXT) + 3, &distance, 4);
	/* 0: 5 x nop; 5: lea table(%rip), %rax; 12: jmp *%rdx */
	table = function(&made, BYTES(0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xff, 0xe2));
	distance = (int32_t)(at_data - (table + 12));
	memcpy(made.text + (table - TEXT) + 8, &distance, 4);
	distance = (int32_t)(table + 12 - at_data);
	memcpy(made.data, &distance, 4);
	distance = (int32_t)(table + 3 - at_data);
	memcpy(made.data + 4, &distance, 4);
	made.data_size = 12;
	pointers[0] = pointed + 4;
	relocs[0] = relocated - 3;
	made.image.pointed = pointers;
	made.image.pointed_count = 1;
	made.image.relocated = relocs;
	made.image.relocated_count = 1;
	find(&made);
	expect(&made, pointed, STOCK_LED_INTO);
	expect(&made, taken, STOCK_LED_INTO);
	expect(&made, table, STOCK_LED_INTO);
	expect(&made, relocated, STOCK_RELOCATED);
	expect(&made, word, STOCK_OK);
	end(&made);
}

/* In an object of a fixed address, words of data and immediates are addresses. */
static void fixed_objects_hold_addresses(void **state)
{
	for (int fixed = 0; fixed < 2; fixed++) {
		struct made made;
		uint64_t word, number, user, value;
		uint32_t small;

		begin(&made);
		word = function(&made, PLAIN);
		number = function(&made, PLAIN);
		user = function(&made, BYTES(0xbf, 0, 0, 0, 0, 0xc3)); /* mov $number + 1, %edi */
		small = (uint32_t)number + 1;
		memcpy(made.text + (user - TEXT) + 1, &small, 4);
		value = word + 1;
		memcpy(made.data + 8, &value, 8);
		made.data_size = 16;
		made.image.fixed = fixed;
		find(&made);
		expect(&made, word, fixed ? STOCK_LED_INTO : STOCK_OK);
		expect(&made, number, fixed ? STOCK_LED_INTO : STOCK_OK);
		expect(&made, user, STOCK_OK);
		end(&made);
	}
}

static void parts_are_no_functions(void **state)
{
	struct made made;
	uint64_t cold, undefined, jumped, jumper;

	begin(&made);
	cold = code(&made, PLAIN);
	frame(&made, cold, 10, BYTES(0x0e, 32)); /* def_cfa_offset 32 at once */
	undefined = code(&made, PLAIN);
	frame(&made, undefined, 10, BYTES(0x07, 16)); /* undefined rip */
	jumped = function(&made, PLAIN);
	jumper = code(&made, BYTES(0x53, 0xe9, 0, 0, 0, 0)); /* push %rbx; jmp jumped */
	frame(&made, jumper, 6, BYTES(0x41, 0x0e, 16));
	made.text[jumper - TEXT + 2] = (uint8_t)(jumped - (jumper + 6));
	memset(made.text + (jumper - TEXT) + 3, 0xff, 3);
	find(&made);
	expect(&made, cold, STOCK_FRAGMENT);
	expect(&made, undefined, STOCK_NO_CALLER);
	expect(&made, jumped, STOCK_FRAGMENT);
	expect(&made, jumper, STOCK_OK);
	end(&made);
}

/* What a conditional jump leads to before the stack has moved: a part, if nothing else leads there. */
static void parts_are_jumped_to(void **state)
{
	enum more { NOTHING, BRANCH_OF_ITS_OWN, JUMP, BRANCH, CALL, SYMBOL, POINTER, PARTS_SYMBOL };
	static const struct {
		bool conditional, aligned;
		enum more more;
		enum stock_verdict verdict;
	} cases[] = {
		{true, false, NOTHING, STOCK_FRAGMENT}, {true, false, BRANCH_OF_ITS_OWN, STOCK_FRAGMENT},
		{false, false, NOTHING, STOCK_OK},	{true, true, NOTHING, STOCK_OK},
		{true, false, JUMP, STOCK_OK},		{true, false, BRANCH, STOCK_OK},
		{true, false, CALL, STOCK_OK},		{true, false, SYMBOL, STOCK_OK},
		{true, false, POINTER, STOCK_OK},	{false, true, PARTS_SYMBOL, STOCK_FRAGMENT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* test %eax, %eax; je or jmp part; mov %rdi, %rax; ret; part: xor %eax, %eax; mov %rsp, %rax; nop; ret
		 */
		uint8_t bytes[32] = {0x85, 0xc0, 0x74, 0, 0x48, 0x89, 0xf8, 0xc3}, off = cases[i].aligned ? 16 : 12;
		static const uint8_t tail[] = {0x31, 0xc0, 0x48, 0x89, 0xe0, 0x90, 0xc3};
		uint64_t first, second, part;
		struct made made;
		int32_t distance;

		bytes[2] = cases[i].conditional ? 0x74 : 0xeb;
		bytes[3] = (uint8_t)(off - 4);
		memcpy(bytes + off, tail, sizeof(tail));
		begin(&made);
		first = code(&made, bytes, off + sizeof(tail));
		part = first + off;
		frame(&made, first, 8, NO_ROWS);
		frame(&made, part, sizeof(tail), NO_ROWS);
		second = function(&made, BYTES(0x90, 0xe8, 0, 0, 0, 0, 0xc3)); /* nop; call or jmp part; ret */
		distance = cases[i].more == CALL || cases[i].more == JUMP ? (int32_t)(part - (second + 6)) : 0;
		memcpy(made.text + (second - TEXT) + 2, &distance, 4);
		made.text[second - TEXT + 1] = cases[i].more == JUMP ? 0xe9 : 0xe8;
		if (cases[i].more == BRANCH) {
			made.text[second - TEXT + 1] = 0x75;
			made.text[second - TEXT + 2] = (uint8_t)(part - (second + 3));
			memset(made.text + (second - TEXT) + 3, 0x90, 3);
		}
		if (cases[i].more == BRANCH_OF_ITS_OWN) /* instead of mov %rdi, %rax */
			memcpy(made.text + (first - TEXT) + 4, (const uint8_t[]){0x90, 0x75, (uint8_t)(off - 7)}, 3);
		made.symbols[0] = (struct stock_symbol){.address = part, .size = sizeof(tail)};
		made.symbols[0].part = cases[i].more == PARTS_SYMBOL;
		made.image.symbol_count = cases[i].more == SYMBOL || cases[i].more == PARTS_SYMBOL;
		made.image.pointed = &part;
		made.image.pointed_count = cases[i].more == POINTER;
		find(&made);
		if (at(&made, part)->verdict != cases[i].verdict)
			fail_msg("case %zu: %d, not %d", i, at(&made, part)->verdict, cases[i].verdict);
		expect(&made, second, STOCK_OK);
		end(&made);
	}
}

/* Who touches the slot of the return address, and who only seems to. */
static void return_slots(void **state)
{
	static const struct {
		uint8_t code[12];
		bool framed; /* the CFA is %rbp + 16 from byte 1 on */
		bool touches;
	} cases[] = {
		{{0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, 0x07, 0xc3}, false, true}, /* mov (%rsp), %rax */
		{{0x48, 0x89, 0x04, 0x24, 0x90, 0x90, 0xc3}, false, true},	 /* mov %rax, (%rsp) */
		{{0x58, 0x48, 0x89, 0xfc, 0xff, 0xe0}, false, true},		 /* pop %rax; ...; jmp *%rax */
		{{0x48, 0x8d, 0x04, 0x24, 0x90, 0xc3}, false, false},		 /* lea (%rsp), %rax */
		{{0x48, 0x8b, 0x44, 0x24, 0x08, 0xc3}, false, false},		 /* mov 8(%rsp), %rax */
		{{0x48, 0x8b, 0x44, 0x24, 0xf8, 0xc3}, false, false},		 /* mov -8(%rsp), %rax */
		{{0x48, 0x8b, 0x04, 0x04, 0x90, 0xc3}, false, false},		 /* mov (%rsp,%rax), %rax */
		{{0x55, 0x48, 0x8b, 0x45, 0x08, 0x90, 0x90, 0xc3}, true, true},	 /* mov 8(%rbp), %rax */
		{{0x55, 0x48, 0x8b, 0x45, 0x10, 0x90, 0x90, 0xc3}, true, false}, /* mov 16(%rbp), %rax */
		{{0x55, 0x49, 0x8b, 0x45, 0x08, 0x90, 0x90, 0xc3}, true, false}, /* mov 8(%r13), %rax */
		{{0xff, 0x34, 0x24, 0x90, 0x90, 0x90, 0xc3}, false, true},	 /* push (%rsp) */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made made;
		uint64_t address;

		begin(&made);
		address = code(&made, cases[i].code, sizeof(cases[i].code));
		if (cases[i].framed)
			frame(&made, address, 12, BYTES(0x41, 0x0c, 6, 16));
		else
			frame(&made, address, 12, NO_ROWS);
		find(&made);
		if ((at(&made, address)->verdict == STOCK_RETURN_ADDRESS) != cases[i].touches)
			fail_msg("case %zu: %d", i, at(&made, address)->verdict);
		end(&made);
	}
}

/* _setjmp: a jump to one that reads it, through another, through memory; a call is none. */
static void jumps_to_readers(void **state)
{
	static const uint64_t keepers[] = {DATA + 8};
	struct made made;
	uint64_t reader, first, second, called, slot, other_slot;
	int32_t distance;

	begin(&made);
	reader = function(&made, BYTES(0x48, 0x8b, 0x04, 0x24, 0x90, 0xc3));
	first = function(&made, BYTES(0x31, 0xf6, 0xe9, 0xe9, 0xff, 0xff, 0xff)); /* jmp reader */
	second =
		function(&made, BYTES(0x31, 0xf6, 0x85, 0xf6, 0x0f, 0x84, 0xe6, 0xff, 0xff, 0xff, 0xc3)); /* je first */
	called = function(&made, BYTES(0xe8, 0xcb, 0xff, 0xff, 0xff, 0xc3)); /* call reader */
	slot = function(&made, BYTES(0xff, 0x25, 0, 0, 0, 0));
	distance = (int32_t)(DATA + 8 - (slot + 6));
	memcpy(made.text + (slot - TEXT) + 2, &distance, 4);
	other_slot = function(&made, BYTES(0xff, 0x25, 0, 0, 0, 0));
	distance = (int32_t)(DATA + 16 - (other_slot + 6));
	memcpy(made.text + (other_slot - TEXT) + 2, &distance, 4);
	made.image.keepers = keepers;
	made.image.keeper_count = 1;
	made.data_size = 32;
	find(&made);
	expect(&made, reader, STOCK_RETURN_ADDRESS);
	expect(&made, first, STOCK_RETURN_ADDRESS);
	expect(&made, second, STOCK_RETURN_ADDRESS);
	expect(&made, called, STOCK_OK);
	expect(&made, slot, STOCK_RETURN_ADDRESS);
	expect(&made, other_slot, STOCK_OK);
	end(&made);
}

static void names_and_symbols(void **state)
{
	struct made made;
	uint64_t left, twice, jumper, bare, hosted;

	begin(&made);
	left = function(&made, PLAIN);
	twice = code(&made, PLAIN);
	jumper = function(&made, BYTES(0x31, 0xf6, 0xe9, 0xe9, 0xff, 0xff, 0xff)); /* jmp twice */
	bare = code(&made, PLAIN);
	hosted = function(&made, BYTES(0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, 0xb8, 1, 0, 0, 0, 0xc3));
	made.symbols[0] = (struct stock_symbol){.address = left, .size = 10, .leave = true};
	made.symbols[1] = (struct stock_symbol){.address = twice, .size = 10, .twice = true};
	made.symbols[2] = (struct stock_symbol){.address = bare, .size = 10};
	made.symbols[3] = (struct stock_symbol){.address = hosted + 6, .size = 6};
	made.image.symbol_count = 4;
	find(&made);
	expect(&made, left, STOCK_LEAVE);
	expect(&made, twice, STOCK_RETURN_ADDRESS);
	expect(&made, jumper, STOCK_RETURN_ADDRESS);
	expect(&made, bare, STOCK_NO_ROWS);
	expect_head(&made, hosted, hosted, 5);
	expect_head(&made, hosted + 6, hosted + 6, 5);
	end(&made);
}

/* Without an unwind table symbols are all that there is. */
static void symbols_alone(void **state)
{
	struct made made;
	uint64_t bare;

	begin(&made);
	bare = code(&made, PLAIN);
	made.symbols[0] = (struct stock_symbol){.address = bare, .size = 10};
	made.image.symbol_count = 1;
	find(&made);
	expect_head(&made, bare, bare, 8);
	end(&made);
}

static void unknown_code(void **state)
{
	struct made made;
	uint64_t unknown, trap;

	begin(&made);
	unknown = function(&made, BYTES(0x06, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* push %es */
	trap = function(&made, BYTES(0x0f, 0x0b));
	find(&made);
	expect(&made, unknown, STOCK_UNKNOWN_CODE);
	expect(&made, trap, STOCK_CANNOT_MOVE);
	end(&made);
}

static void linkage_tables_and_other_cpus_have_none(void **state)
{
	struct made made;

	begin(&made);
	function(&made, PLAIN);
	find(&made);
	assert_int_equal(made.list.count, 1);
	end(&made);
	made.sections[0].plt = true;
	assert_int_equal(stock_find(&made.list, &made.image), 0);
	assert_int_equal(made.list.count, 0);
	end(&made);
	made.sections[0].plt = false;
	made.image.machine = EM_S390;
	assert_int_equal(stock_find(&made.list, &made.image), 0);
	assert_int_equal(made.list.count, 0);
	end(&made);
	assert_true(stock_has_cpu(EM_X86_64));
	assert_false(stock_has_cpu(EM_S390));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_are_whole_instructions),
		cmocka_unit_test(a_landing_pad_may_be_replaced),
		cmocka_unit_test(a_sled_stays),
		cmocka_unit_test(jumps_lead_into_heads),
		cmocka_unit_test(a_later_displaced_instruction_may_be_led_to),
		cmocka_unit_test(calls_do_not_return_into_the_jump),
		cmocka_unit_test(addresses_from_elsewhere_lead_in),
		cmocka_unit_test(fixed_objects_hold_addresses),
		cmocka_unit_test(parts_are_no_functions),
		cmocka_unit_test(parts_are_jumped_to),
		cmocka_unit_test(return_slots),
		cmocka_unit_test(jumps_to_readers),
		cmocka_unit_test(names_and_symbols),
		cmocka_unit_test(symbols_alone),
		cmocka_unit_test(unknown_code),
		cmocka_unit_test(linkage_tables_and_other_cpus_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
