/*
 * Stock functions: call frame information and blocks of an object that is not to be trusted.
 *
 * Input: how many bytes of code there are, the code, then as many bytes as there are functions, which lie at multiples
 * of 16: the lengths of their heads; all that is left is .eh_frame.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <host/stock/stock.h>

#include "fuzz.h"

#define TEXT	  UINT64_C(0x2000)
#define FRAMES	  UINT64_C(0x8000)
#define BASE	  UINT64_C(0x555555554000)
#define AT	  (BASE + 0x100000)
#define FAR	  (UINT64_C(1) << 40)
#define FUNCTIONS 32u
#define STEP	  16u
#define ROWS	  40u

static const uint16_t machines[] = {EM_X86_64, EM_AARCH64, EM_RISCV};

static void read_entries(const struct cfi_section *frames)
{
	struct cfi_reader reader;
	struct cfi_entry entry;

	cfi_begin(&reader, frames);
	while (cfi_next(&reader, &entry)) {
		struct cfi_row one = {0}, other = {0};
		struct cfi_rows rows;

		fuzz_taken = 1;
		cfi_rows_begin(&rows, &entry);
		for (uint64_t at = 0; at < ROWS; at++) {
			bool known = cfi_rows_to(&rows, at, &one);

			fuzz_expect(known == cfi_row_at(&entry, at, &other), "rows are known or not, however one asks");
			fuzz_expect(!known || (one.cfa_register == other.cfa_register &&
					       one.cfa_offset == other.cfa_offset && one.saved == other.saved),
				    "a row is one row");
		}
	}
}

/* What was made: a table with a row for each block. */
static void check_tables(const uint8_t *bytes, const struct stock_layout *layout, const struct stock_block *blocks,
			 size_t count)
{
	const uint8_t *header = bytes + layout->header_off;
	struct cfi_section frames;
	struct cfi_reader reader;
	struct cfi_entry entry;
	int32_t distance;

	memcpy(&distance, header + 4, sizeof(distance));
	frames = (struct cfi_section){header + 4 + distance, layout->header_size - 4 - (uint64_t)distance,
				      AT + layout->header_off + 4 + (uint64_t)distance};
	cfi_begin(&reader, &frames);
	for (size_t i = 0; i < count; i++) {
		struct cfi_row row;

		if (!blocks[i].size)
			continue;
		fuzz_expect(cfi_next(&reader, &entry), "each block has an entry");
		fuzz_expect(entry.start == AT + blocks[i].offset && entry.size <= blocks[i].size, "it is the block's");
		fuzz_expect(cfi_row_at(&entry, blocks[i].size, &row), "its rows are known");
	}
	fuzz_expect(!cfi_next(&reader, &entry), "there is no other");
}

/* Places in a block are places in the head, and the other way round. */
static void check_places(const struct stock_image *image, const struct stock_block *block)
{
	const struct stock_region region = {image, AT, BASE};

	for (unsigned i = 1, to, back; block->size && i < block->length; i++) {
		if (!stock_into_block(&region, block, i, &to))
			continue;
		fuzz_expect(to < block->size, "a place is in the block");
		fuzz_expect(stock_out_of_block(&region, block, to, &back) && back == i, "and leads back");
	}
}

static void make(const struct stock_image *image, struct stock_block *blocks, size_t count)
{
	struct stock_layout layout;
	uint8_t *bytes;

	if (stock_layout(&layout, image, blocks, count))
		return;
	bytes = malloc(layout.size);
	fuzz_expect(bytes != NULL, "there is memory");
	if (!stock_make(bytes, &layout, image, blocks, count, AT, BASE)) {
		check_tables(bytes, &layout, blocks, count);
		for (size_t i = 0; i < count; i++)
			check_places(image, &blocks[i]);
	}
	(void)!stock_make(bytes, &layout, image, blocks, count, AT + FAR, BASE);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct stock_block blocks[FUNCTIONS] = {{0}};
	size_t code_size = input_u16(&input), count;
	const uint8_t *code = input_bytes(&input, code_size, &code_size);
	const struct stock_section section = {TEXT, code_size, code, true, false};
	struct stock_image image = {.sections = &section, .section_count = 1};

	count = code_size / STEP < FUNCTIONS ? code_size / STEP : FUNCTIONS;
	for (size_t i = 0; i < count; i++) {
		blocks[i].head = TEXT + i * STEP;
		blocks[i].length = input_byte(&input);
	}
	image.frames = (struct cfi_section){input.at, input.left, FRAMES};
	read_entries(&image.frames);
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		image.machine = machines[i];
		make(&image, blocks, count);
	}
	return 0;
}
