/*
 * Call frame instructions, and the rows that they make (cfi.h).  Context: host.
 */
#include <dwarf.h>

#include "cfi.h"
#include "cfi_bytes.h"

#define PRIMARY	 0xc0u /* an instruction with one of these bits has an operand in the others */
#define EXTENDED 0x40u /* all others are below this */

/* What follows an instruction's code. */
enum operands {
	UNKNOWN,
	NONE,
	NUMBER_1, /* of so many bytes */
	NUMBER_2,
	NUMBER_4,
	NUMBER_8,
	NUMBER,	    /* LEB128 */
	SIGNED,	    /* LEB128 with a sign */
	REG,	    /* a register */
	REG_NUMBER, /* a register and a number */
	REG_SIGNED,
	BLOCK,	   /* an expression */
	REG_BLOCK, /* a register and an expression */
};

static const uint8_t operands_of[EXTENDED] = {
	[DW_CFA_nop] = NONE,
	/* DW_CFA_set_loc: an address in the FDE's encoding, which nobody makes. */
	[DW_CFA_advance_loc1] = NUMBER_1,
	[DW_CFA_advance_loc2] = NUMBER_2,
	[DW_CFA_advance_loc4] = NUMBER_4,
	[DW_CFA_MIPS_advance_loc8] = NUMBER_8,
	[DW_CFA_offset_extended] = REG_NUMBER,
	[DW_CFA_restore_extended] = REG,
	[DW_CFA_undefined] = REG,
	[DW_CFA_same_value] = REG,
	[DW_CFA_register] = REG_NUMBER,
	[DW_CFA_remember_state] = NONE,
	[DW_CFA_restore_state] = NONE,
	[DW_CFA_def_cfa] = REG_NUMBER,
	[DW_CFA_def_cfa_register] = REG,
	[DW_CFA_def_cfa_offset] = NUMBER,
	[DW_CFA_def_cfa_expression] = BLOCK,
	[DW_CFA_expression] = REG_BLOCK,
	[DW_CFA_offset_extended_sf] = REG_SIGNED,
	[DW_CFA_def_cfa_sf] = REG_SIGNED,
	[DW_CFA_def_cfa_offset_sf] = SIGNED,
	[DW_CFA_val_offset] = REG_NUMBER,
	[DW_CFA_val_offset_sf] = REG_SIGNED,
	[DW_CFA_val_expression] = REG_BLOCK,
	[DW_CFA_GNU_window_save] = NONE, /* AArch64: the return address is signed from here on, or no more */
	[DW_CFA_GNU_args_size] = NUMBER,
	[DW_CFA_GNU_negative_offset_extended] = REG_NUMBER,
};

static void read_operands(struct cfi_instruction *in, struct cfi_bytes *from, enum operands operands)
{
	if (operands == REG || operands == REG_NUMBER || operands == REG_SIGNED || operands == REG_BLOCK)
		in->reg = cfi_leb128(from, false);
	switch (operands) {
	case UNKNOWN:
		from->bad = true;
		break;
	case NUMBER_1:
	case NUMBER_2:
	case NUMBER_4:
	case NUMBER_8:
		in->value = cfi_number(from, 1u << (operands - NUMBER_1));
		break;
	case NUMBER:
	case REG_NUMBER:
		in->value = cfi_leb128(from, false);
		break;
	case SIGNED:
	case REG_SIGNED:
		in->value = cfi_leb128(from, true);
		break;
	case BLOCK:
	case REG_BLOCK:
		in->block_size = cfi_leb128(from, false);
		break;
	default:
		break;
	}
}

size_t cfi_decode(struct cfi_instruction *in, const uint8_t *code, size_t size)
{
	struct cfi_bytes from = {code, code + size, false};
	uint8_t first = (uint8_t)cfi_number(&from, 1), operand = first & (uint8_t)~PRIMARY;

	*in = (struct cfi_instruction){.code = first & PRIMARY ? first & PRIMARY : first};
	if (in->code == DW_CFA_advance_loc) {
		in->value = operand;
	} else if (in->code == DW_CFA_offset || in->code == DW_CFA_restore) {
		in->reg = operand;
		in->value = in->code == DW_CFA_offset ? cfi_leb128(&from, false) : 0;
	} else {
		read_operands(in, &from, operands_of[in->code]);
	}
	if (from.bad || from.at - code > UINT8_MAX)
		return 0;
	in->length = (uint8_t)(from.at - code);
	if (in->block_size)
		in->block = cfi_take(&from, in->block_size);
	return from.bad ? 0 : (size_t)(from.at - code);
}

bool cfi_advances(const struct cfi_instruction *in, uint64_t code_align, uint64_t *bytes)
{
	switch (in->code) {
	case DW_CFA_advance_loc:
	case DW_CFA_advance_loc1:
	case DW_CFA_advance_loc2:
	case DW_CFA_advance_loc4:
	case DW_CFA_MIPS_advance_loc8:
		if (__builtin_mul_overflow(in->value, code_align, bytes))
			*bytes = UINT64_MAX; /* beyond any function's end */
		return true;
	default:
		return false;
	}
}

/* The CFA is a register, by its DWARF number, and an offset. */
static bool set_cfa(struct cfi_row *row, uint64_t reg, int64_t offset)
{
	row->cfa_register = (uint8_t)reg;
	row->cfa_offset = offset;
	return reg < CFI_EXPRESSION;
}

/* Carry out what defines the CFA; false: the instruction is another, or makes no sense. */
static bool define_cfa(struct cfi_rows *rows, const struct cfi_instruction *in)
{
	struct cfi_row *row = &rows->now.row;
	int64_t factored;
	bool fits = !__builtin_mul_overflow((int64_t)in->value, rows->entry->data_align, &factored);

	switch (in->code) {
	case DW_CFA_def_cfa:
		return set_cfa(row, in->reg, (int64_t)in->value);
	case DW_CFA_def_cfa_sf:
		return fits && set_cfa(row, in->reg, factored);
	case DW_CFA_def_cfa_register:
		return set_cfa(row, in->reg, row->cfa_offset);
	case DW_CFA_def_cfa_offset:
		return set_cfa(row, row->cfa_register, (int64_t)in->value);
	case DW_CFA_def_cfa_offset_sf:
		return fits && set_cfa(row, row->cfa_register, factored);
	case DW_CFA_def_cfa_expression:
		row->cfa_register = CFI_EXPRESSION;
		row->cfa_offset = 0;
		return true;
	default:
		return false;
	}
}

/* Where, from the CFA, a register lies by the rule of this instruction; 0: not there, or not by the CFA alone. */
static int64_t place_of(const struct cfi_rows *rows, const struct cfi_instruction *in)
{
	int64_t value = (int64_t)in->value, offset;

	if (in->code != DW_CFA_offset && in->code != DW_CFA_offset_extended && in->code != DW_CFA_offset_extended_sf &&
	    in->code != DW_CFA_GNU_negative_offset_extended)
		return 0;
	if (__builtin_mul_overflow(value, rows->entry->data_align, &offset) || offset == INT64_MIN)
		return 0;
	return in->code == DW_CFA_GNU_negative_offset_extended ? -offset : offset;
}

/* Give the return address' column its rule. */
static void set_return(struct cfi_row *row, const struct cfi_row *initial, const struct cfi_rows *rows,
		       const struct cfi_instruction *in)
{
	if (in->code == DW_CFA_restore || in->code == DW_CFA_restore_extended) {
		row->return_at_cfa = initial->return_at_cfa;
		row->return_undefined = initial->return_undefined;
		row->return_moved = initial->return_moved;
		row->return_offset = initial->return_offset;
		return;
	}
	row->return_offset = place_of(rows, in);
	row->return_at_cfa = row->return_offset == -8;
	row->return_undefined = in->code == DW_CFA_undefined;
	row->return_moved = in->code != DW_CFA_same_value;
}

/* Carry out what gives a register a rule; false: the register is beyond what can be told. */
static bool set_rule(struct cfi_rows *rows, const struct cfi_instruction *in)
{
	struct cfi_state *now = &rows->now;
	bool restores = in->code == DW_CFA_restore || in->code == DW_CFA_restore_extended;
	uint64_t word = in->reg / 64, bit = (uint64_t)1 << in->reg % 64;

	if (in->reg == rows->entry->return_register) {
		set_return(&now->row, &rows->initial.row, rows, in);
		return true;
	}
	if (word >= sizeof(now->kept) / sizeof(now->kept[0]))
		return false;
	now->kept[word] &= ~bit;
	if (restores)
		now->kept[word] |= rows->initial.kept[word] & bit;
	else if (in->code != DW_CFA_undefined && in->code != DW_CFA_same_value)
		now->kept[word] |= bit;
	return true;
}

/* Carry out an instruction that does not advance; false: it makes no sense here. */
static bool carry_out(struct cfi_rows *rows, const struct cfi_instruction *in)
{
	switch (in->code) {
	case DW_CFA_nop:
	case DW_CFA_GNU_window_save:
	case DW_CFA_GNU_args_size:
		return true;
	case DW_CFA_remember_state:
		if (rows->depth == CFI_STATES)
			return false;
		rows->states[rows->depth++] = rows->now;
		return true;
	case DW_CFA_restore_state:
		if (!rows->depth)
			return false;
		rows->now = rows->states[--rows->depth];
		return true;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		return define_cfa(rows, in);
	default:
		return set_rule(rows, in);
	}
}

void cfi_rows_begin(struct cfi_rows *rows, const struct cfi_entry *entry)
{
	*rows = (struct cfi_rows){.entry = entry, .now.row.cfa_register = CFI_EXPRESSION};
	for (size_t at = 0; at < entry->initial_size && !rows->bad;) {
		struct cfi_instruction in;
		size_t size = cfi_decode(&in, entry->initial + at, entry->initial_size - at);
		uint64_t bytes;

		rows->bad = !size || cfi_advances(&in, entry->code_align, &bytes) || !carry_out(rows, &in);
		at += size;
	}
	rows->depth = 0;
	rows->initial = rows->now;
}

bool cfi_rows_to(struct cfi_rows *rows, uint64_t offset, struct cfi_row *row)
{
	const struct cfi_entry *entry = rows->entry;

	while (!rows->bad && rows->at < entry->code_size) {
		struct cfi_instruction in;
		size_t size = cfi_decode(&in, entry->code + rows->at, entry->code_size - rows->at);
		uint64_t bytes, place;

		rows->bad = !size;
		if (rows->bad)
			break;
		if (!cfi_advances(&in, entry->code_align, &bytes)) {
			rows->bad = !carry_out(rows, &in);
		} else {
			if (__builtin_add_overflow(rows->place, bytes, &place) || place > offset)
				break;
			rows->place = place;
		}
		rows->at += size;
	}
	*row = rows->now.row;
	row->saved = rows->now.kept[0] || rows->now.kept[1];
	return !rows->bad;
}

bool cfi_row_at(const struct cfi_entry *entry, uint64_t offset, struct cfi_row *row)
{
	struct cfi_rows rows;

	cfi_rows_begin(&rows, entry);
	return cfi_rows_to(&rows, offset, row);
}
