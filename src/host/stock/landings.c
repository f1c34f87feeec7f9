/*
 * What leads into code from tables: exception tables, tables of jumps, words of data (find.h).  Context: host.
 * Source: LSB 5.0 "Exception Frames"; the table of an exception's places as gcc and clang write it.
 */
#include <dwarf.h>

#include "cfi_bytes.h"
#include "find.h"

#define FORMAT	  0x0fu
#define RELATION  0x70u
#define TABLE_MAX (1u << 16) /* jumps of one table */

/* A number in a pointer's format, without what it is relative to. */
static uint64_t number(struct cfi_bytes *in, uint8_t encoding)
{
	switch (encoding & FORMAT) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return cfi_number(in, 8);
	case DW_EH_PE_uleb128:
		return cfi_leb128(in, false);
	case DW_EH_PE_sleb128:
		return cfi_leb128(in, true);
	case DW_EH_PE_udata2:
		return cfi_number(in, 2);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int16_t)cfi_number(in, 2);
	case DW_EH_PE_udata4:
		return cfi_number(in, 4);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int32_t)cfi_number(in, 4);
	default:
		in->bad = true;
		return 0;
	}
}

void find_landings(struct finding *finding, const struct cfi_entry *entry)
{
	uint64_t base = entry->start, here = entry->lsda, length;
	size_t size;
	const uint8_t *bytes = entry->lsda ? find_bytes(finding->image, here, &size) : NULL;
	struct cfi_bytes in;
	uint8_t encoding;

	if (!bytes)
		return;
	in = (struct cfi_bytes){bytes, bytes + size, false};
	encoding = (uint8_t)cfi_number(&in, 1);
	if (encoding != DW_EH_PE_omit) {
		here += (uint64_t)(in.at - bytes);
		base = number(&in, encoding) + ((encoding & RELATION) == DW_EH_PE_pcrel ? here : 0);
	}
	if ((uint8_t)cfi_number(&in, 1) != DW_EH_PE_omit)
		cfi_leb128(&in, false);
	encoding = (uint8_t)cfi_number(&in, 1);
	length = cfi_leb128(&in, false);
	if (in.bad || length > cfi_left(&in))
		return;
	in.end = in.at + length;
	while (!in.bad && cfi_left(&in) && finding->budget) {
		uint64_t landing;

		finding->budget--;
		number(&in, encoding);
		number(&in, encoding);
		landing = number(&in, encoding);
		cfi_leb128(&in, false);
		if (in.bad || !landing)
			continue;
		marks_set(&finding->targets, base + landing);
		marks_set(&finding->landings, base + landing);
	}
}

static void read_table(struct finding *finding, const struct start *start, const uint8_t *bytes, size_t size,
		       uint64_t from)
{
	for (size_t i = 0; i < TABLE_MAX && size >= 4 && finding->budget; i++, size -= 4, finding->budget--) {
		uint64_t target = from + (uint64_t)isa_signed(isa_load32(bytes + i * 4), 32);

		if (target < start->address || target >= start->end) {
			size_t other = find_start_around(finding, target);

			if (other == SIZE_MAX || finding->starts[other].kind != START_FRAGMENT)
				return;
		}
		marks_set(&finding->targets, target);
		marks_set(&finding->used, target);
	}
}

void find_jump_table(struct finding *finding, const struct start *start, uint64_t table)
{
	size_t size, index;
	const struct stock_section *section = find_section(finding->image, table, &index);
	const uint8_t *bytes = find_bytes(finding->image, table, &size);

	if (!bytes || section->code)
		return;
	read_table(finding, start, bytes, size, table);
	if (finding->image->fixed)
		read_table(finding, start, bytes, size, 0);
}

void find_words(struct finding *finding)
{
	const struct stock_image *image = finding->image;

	for (size_t i = 0; i < image->section_count; i++) {
		const struct stock_section *section = &image->sections[i];

		if (section->code || !section->bytes)
			continue;
		for (uint64_t at = -section->address & 7; at + 8 <= section->size; at += 8) {
			uint64_t word = isa_load32(section->bytes + at) | (uint64_t)isa_load32(section->bytes + at + 4)
										  << 32;

			marks_set(&finding->targets, word);
			marks_set(&finding->used, word);
			marks_set(&finding->entered, word);
		}
	}
}
