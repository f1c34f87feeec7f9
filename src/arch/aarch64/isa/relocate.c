/*
 * aarch64: the relocator (see relocate.h).  Pure.
 */
#include "decode.h"
#include "fields.h"
#include "relocate.h"

static void put_address(struct isa_out *out, unsigned rd, uint64_t value)
{
	uint64_t here = isa_out_here(out);
	int64_t pages = a64_page_offset(here, value);

	if (a64_adr_reaches((int64_t)(value - here))) {
		isa_put32(out, a64_adr(rd, (int64_t)(value - here)));
		return;
	}
	if (a64_adrp_reaches(pages)) {
		isa_put32(out, a64_adrp(rd, pages));
		if (value & 0xfff)
			isa_put32(out, a64_add_imm_x(rd, rd, value & 0xfff));
		return;
	}
	isa_put32(out, a64_movz_x(rd, (uint32_t)value & 0xffff, 0));
	for (unsigned shift = 16; shift < 64; shift += 16) {
		if (value >> shift & 0xffff)
			isa_put32(out, a64_movk_x(rd, (uint32_t)(value >> shift) & 0xffff, shift));
	}
}

static int put_jump(struct isa_out *out, uint64_t target, unsigned scratch)
{
	int64_t offset = (int64_t)(target - isa_out_here(out));

	if (a64_b_reaches(offset)) {
		isa_put32(out, a64_b(offset));
		return 0;
	}
	if (scratch == A64_XZR)
		return -ERANGE;
	put_address(out, scratch, target);
	isa_put32(out, a64_ret(scratch));
	return 0;
}

/* b.cond, cbz and tbz with another offset, which is in reach. */
static uint32_t with_offset(uint32_t word, int64_t offset)
{
	unsigned bits = (word & 0x7e000000) == 0x36000000 ? 14 : 19;
	uint32_t mask = ((1u << bits) - 1) << 5;

	return (word & ~mask) | ((uint32_t)(offset >> 2) << 5 & mask);
}

static bool branch_reaches(uint32_t word, int64_t offset)
{
	return a64_words_reach(offset, (word & 0x7e000000) == 0x36000000 ? 14 : 19);
}

static uint32_t inverted(uint32_t word)
{
	return (word & 0xff000000) == 0x54000000 ? word ^ 1 : word ^ 1u << 24;
}

/* A branch that does not reach becomes its opposite, around a jump. */
static int put_branch(struct isa_out *out, uint32_t word, uint64_t target, unsigned scratch)
{
	int64_t offset = (int64_t)(target - isa_out_here(out));
	size_t start = out->length;
	uint8_t *branch;
	int error;

	if (branch_reaches(word, offset)) {
		isa_put32(out, with_offset(word, offset));
		return 0;
	}
	branch = isa_out_take(out, 4);
	error = put_jump(out, target, scratch);
	if (branch)
		isa_store32(branch, with_offset(inverted(word), (int64_t)(out->length - start)));
	return error;
}

/* ldr rt, [rn] for what loads a literal. */
static uint32_t load_through(uint32_t literal, unsigned rn)
{
	static const uint32_t general[] = {0xb9400000, 0xf9400000, 0xb9800000}; /* w, x, sw */
	static const uint32_t vector[] = {0xbd400000, 0xfd400000, 0x3dc00000};	/* s, d, q */
	uint32_t size = literal >> 30;

	return (literal & 1u << 26 ? vector[size] : general[size]) | rn << 5 | a64_rd(literal);
}

static int put_literal_load(struct isa_out *out, uint32_t word, uint64_t target, unsigned scratch)
{
	int64_t offset = (int64_t)(target - isa_out_here(out));
	unsigned base = scratch;

	if (branch_reaches(word, offset)) {
		isa_put32(out, with_offset(word, offset));
		return 0;
	}
	if ((word & 0xff000000) == 0xd8000000) { /* prfm, a hint */
		isa_put32(out, A64_NOP);
		return 0;
	}
	/* A general register holds the address until it holds what is there. */
	if (!(word & 1u << 26) && a64_rd(word) != A64_XZR)
		base = a64_rd(word);
	if (base == A64_XZR)
		return -ERANGE;
	put_address(out, base, target);
	isa_put32(out, load_through(word, base));
	return 0;
}

/* blr, blraaz, blraa as the br of the same kind; the return address is the old one. */
static int put_indirect_call(struct isa_out *out, uint32_t word, uint64_t next, unsigned scratch)
{
	bool signed_by = isa_field(word, 24, 1); /* blraa has a modifier in rm, elsewhere that is 0 or 31 */
	uint32_t jump = word & ~(1u << 21);

	if (a64_rn(word) == A64_X30)
		jump = (jump & ~(31u << 5)) | scratch << 5;
	if (signed_by && a64_rd(word) == A64_X30)
		jump = (jump & ~31u) | scratch;
	if (jump != (word & ~(1u << 21))) {
		if (scratch == A64_XZR)
			return -ENOTSUP;
		isa_put32(out, a64_mov_x(scratch, A64_X30));
	}
	put_address(out, A64_X30, next);
	isa_put32(out, jump);
	return 0;
}

static int put_moved(struct isa_out *out, const struct isa_instruction *in, const struct isa_source *source)
{
	uint32_t word = isa_load32(source->code);

	switch (in->kind) {
	case ISA_ADDRESS:
		if (a64_rd(word) != A64_XZR)
			put_address(out, a64_rd(word), in->target);
		else
			isa_put32(out, A64_NOP);
		return 0;
	case ISA_MEMORY:
		return put_literal_load(out, word, in->target, source->scratch);
	case ISA_JUMP:
		return put_jump(out, in->target, source->scratch);
	case ISA_BRANCH:
		return put_branch(out, word, in->target, source->scratch);
	case ISA_CALL:
		put_address(out, A64_X30, source->from + 4);
		return put_jump(out, in->target, source->scratch);
	case ISA_CALL_INDIRECT:
		return put_indirect_call(out, word, source->from + 4, source->scratch);
	default:
		isa_put32(out, word);
		return 0;
	}
}

int a64_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, unsigned scratch)
{
	return isa_relocate(out, &(struct isa_source){code, size, from, scratch}, a64_decode, put_moved);
}
