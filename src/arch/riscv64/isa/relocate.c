/*
 * riscv64: the relocator (see relocate.h).  Pure.
 */
#include "decode.h"
#include "fields.h"
#include "relocate.h"

/* A register gets a value that lies too far for auipc: from a word behind the code that loads it. */
static void put_literal(struct isa_out *out, unsigned rd, uint64_t value)
{
	uint64_t start = isa_out_here(out), word = (start + 12 + 7) & ~UINT64_C(7);

	isa_put32(out, rv_auipc(rd, 0));
	isa_put32(out, rv_ld(rd, (int32_t)(word - start), rd));
	isa_put32(out, rv_j((int64_t)(word + 8 - isa_out_here(out))));
	while (isa_out_here(out) < word)
		isa_put16(out, 0);
	isa_put64(out, value);
}

static void put_address(struct isa_out *out, unsigned rd, uint64_t value)
{
	int32_t hi, lo;

	if (!rv_pcrel_split((int64_t)(value - isa_out_here(out)), &hi, &lo)) {
		put_literal(out, rd, value);
		return;
	}
	isa_put32(out, rv_auipc(rd, hi));
	isa_put32(out, rv_addi(rd, rd, lo));
}

static int put_jump(struct isa_out *out, uint64_t target, unsigned scratch)
{
	int64_t offset = (int64_t)(target - isa_out_here(out));

	if (rv_jal_reaches(offset)) {
		isa_put32(out, rv_j(offset));
		return 0;
	}
	if (scratch == RV_ZERO)
		return -ERANGE;
	put_address(out, scratch, target);
	isa_put32(out, rv_jr(scratch));
	return 0;
}

struct comparison {
	enum rv_condition condition;
	unsigned rs1, rs2;
};

static struct comparison comparison_of(uint32_t word, unsigned length)
{
	if (length == 4)
		return (struct comparison){(enum rv_condition)rv_funct3(word), rv_rs1(word), rv_rs2(word)};
	return (struct comparison){rv_c_opcode(word) == RV_C_BEQZ ? RV_EQ : RV_NE, 8 + isa_field(word, 7, 3), RV_ZERO};
}

/* A branch that does not reach becomes its opposite, around a jump. */
static int put_branch(struct isa_out *out, struct comparison is, uint64_t target, unsigned scratch)
{
	int64_t offset = (int64_t)(target - isa_out_here(out));
	uint8_t *branch;
	size_t start = out->length;
	int error;

	if (rv_branch_reaches(offset)) {
		isa_put32(out, rv_branch(is.condition, is.rs1, is.rs2, offset));
		return 0;
	}
	branch = isa_out_take(out, 4);
	error = put_jump(out, target, scratch);
	if (branch)
		isa_store32(branch, rv_branch((enum rv_condition)(is.condition ^ 1), is.rs1, is.rs2,
					      (int64_t)(out->length - start)));
	return error;
}

/* A jump through a register that links: the return address is the old one. */
static int put_indirect_call(struct isa_out *out, uint32_t word, unsigned length, uint64_t next, unsigned scratch)
{
	unsigned rd = length == 4 ? rv_rd(word) : RV_RA, rs1 = length == 4 ? rv_rs1(word) : rv_c_jalr(word);
	int32_t imm = length == 4 ? (int32_t)rv_imm_i(word) : 0;

	if (rd == rs1) {
		if (scratch == RV_ZERO)
			return -ENOTSUP;
		isa_put32(out, rv_mv(scratch, rs1));
		rs1 = scratch;
	}
	put_address(out, rd, next);
	isa_put32(out, rv_jalr(RV_ZERO, rs1, imm));
	return 0;
}

static int put_moved(struct isa_out *out, const struct isa_instruction *in, const struct isa_source *source)
{
	uint32_t word = in->length == 4 ? isa_load32(source->code) : isa_load16(source->code);
	uint64_t next = source->from + in->length;

	switch (in->kind) {
	case ISA_ADDRESS:
		put_address(out, rv_rd(word), in->target);
		return 0;
	case ISA_JUMP:
		return put_jump(out, in->target, source->scratch);
	case ISA_BRANCH:
		return put_branch(out, comparison_of(word, in->length), in->target, source->scratch);
	case ISA_CALL:
		put_address(out, rv_rd(word), next);
		return put_jump(out, in->target, source->scratch);
	case ISA_CALL_INDIRECT:
		return put_indirect_call(out, word, in->length, next, source->scratch);
	default:
		isa_put(out, source->code, in->length);
		return 0;
	}
}

int rv_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, unsigned scratch)
{
	return isa_relocate(out, &(struct isa_source){code, size, from, scratch}, rv_decode, put_moved);
}
