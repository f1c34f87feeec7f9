/*
 * riscv64: the decoder (see decode.h).  Pure.
 */
#include <errno.h>

#include "decode.h"
#include "fields.h"

#define NONE -1

/* Major opcodes of 32-bit instructions that only compute, load or store. */
static const uint8_t plain_opcodes[] = {
	0x07,				/* loads of floating-point and vector registers */
	0x0f,				/* fences */
	0x1b,				/* OP-IMM-32 */
	0x27,				/* stores of floating-point and vector registers */
	0x3b,				/* OP-32 */
	0x43,	   0x47,  0x4b,	  0x4f, /* fused multiply and add */
	0x53,				/* OP-FP */
	0x57,				/* OP-V */
	0x77,				/* OP-VE, vector cryptography */
	RV_OP_IMM, RV_OP, RV_LUI,
};

static bool is_plain_opcode(uint32_t opcode)
{
	for (size_t i = 0; i < sizeof(plain_opcodes); i++) {
		if (plain_opcodes[i] == opcode)
			return true;
	}
	return false;
}

/* By the major opcode; those that are not here are looked at more closely. */
static int kind_of_opcode(uint32_t word)
{
	switch (rv_opcode(word)) {
	case RV_LOAD:
		return rv_funct3(word) != 7 ? ISA_PLAIN : NONE;
	case RV_STORE:
		return rv_funct3(word) <= 3 ? ISA_PLAIN : NONE;
	case RV_AUIPC: /* lpad where it names no register */
		return rv_rd(word) == RV_ZERO ? ISA_PLAIN : ISA_ADDRESS;
	case RV_BRANCH:
		return rv_funct3(word) != 2 && rv_funct3(word) != 3 ? ISA_BRANCH : NONE;
	case RV_JAL:
		return rv_rd(word) == RV_ZERO ? ISA_JUMP : ISA_CALL;
	default:
		return is_plain_opcode(rv_opcode(word)) ? ISA_PLAIN : NONE;
	}
}

/* A jump through a register; one through a link register that leaves no address is a return. */
static int kind_of_jalr(unsigned rd, unsigned rs1, int64_t imm)
{
	if (rd != RV_ZERO)
		return ISA_CALL_INDIRECT;
	return (rs1 == RV_RA || rs1 == RV_T0) && imm == 0 ? ISA_RETURN : ISA_JUMP_INDIRECT;
}

static int kind_of_amo(uint32_t word)
{
	uint32_t operation = isa_field(word, 27, 5), width = rv_funct3(word);

	if (operation == 2 || operation == 3) /* lr, sc: words and double words */
		return (width == 2 || width == 3) && !(operation == 2 && rv_rs2(word)) ? ISA_EXCLUSIVE : NONE;
	return width <= 4 ? ISA_PLAIN : NONE;
}

static int kind_of_system(uint32_t word)
{
	if (rv_funct3(word)) /* control registers, may-be-operations */
		return ISA_PLAIN;
	switch (word) {
	case 0x00000073: /* ecall */
	case 0x00d00073: /* wrs.nto */
	case 0x01d00073: /* wrs.sto */
		return ISA_PLAIN;
	default: /* ebreak, and what only a kernel may do */
		return rv_rd(word) == RV_ZERO ? ISA_TRAP : NONE;
	}
}

static int kind_of_word(uint32_t word)
{
	switch (rv_opcode(word)) {
	case RV_JALR:
		return rv_funct3(word) == 0 ? kind_of_jalr(rv_rd(word), rv_rs1(word), rv_imm_i(word)) : NONE;
	case RV_AMO:
		return kind_of_amo(word);
	case RV_SYSTEM:
		return kind_of_system(word);
	default:
		return kind_of_opcode(word);
	}
}

static int kind_of_half(uint32_t half)
{
	switch (rv_c_opcode(half)) {
	case 0 << 2 | 0: /* c.addi4spn; nothing to add is no instruction */
		return isa_field(half, 5, 8) ? ISA_PLAIN : NONE;
	case 4 << 2 | 0: /* loads and stores of bytes and half words (Zcb) */
		return isa_field(half, 10, 3) <= 3 ? ISA_PLAIN : NONE;
	case 2 << 2 | 2: /* c.lwsp, c.ldsp: not to the zero register */
	case 3 << 2 | 2:
		return rv_rd(half) ? ISA_PLAIN : NONE;
	case RV_C_J:
		return ISA_JUMP;
	case RV_C_BEQZ:
	case RV_C_BNEZ:
		return ISA_BRANCH;
	default:
		break;
	}
	if (rv_c_jr(half))
		return kind_of_jalr(RV_ZERO, rv_c_jr(half), 0);
	if (rv_c_jalr(half))
		return ISA_CALL_INDIRECT;
	if (half == 0x9002) /* c.ebreak */
		return ISA_TRAP;
	return half == 0x8002 ? NONE : ISA_PLAIN; /* c.jr through the zero register */
}

static int64_t offset_of(uint32_t word, unsigned length)
{
	if (length == 2)
		return rv_c_opcode(word) == RV_C_J ? rv_imm_cj(word) : rv_imm_cb(word);
	switch (rv_opcode(word)) {
	case RV_AUIPC:
		return rv_imm_u(word);
	case RV_JAL:
		return rv_imm_j(word);
	default:
		return rv_imm_b(word);
	}
}

int rv_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address)
{
	uint32_t word;
	unsigned length;
	int kind;

	if (size < 2)
		return -ENODATA;
	length = rv_length(isa_load16(code));
	if (length > size)
		return -ENODATA;
	word = length == 4 ? isa_load32(code) : isa_load16(code);
	kind = length == 4 ? kind_of_word(word) : length == 2 ? kind_of_half(word) : NONE;
	if (kind == NONE)
		return -EILSEQ;
	*in = (struct isa_instruction){.kind = (uint8_t)kind, .length = (uint8_t)length};
	in->has_target = kind == ISA_ADDRESS || kind == ISA_JUMP || kind == ISA_BRANCH || kind == ISA_CALL;
	if (in->has_target)
		in->target = address + (uint64_t)offset_of(word, length);
	return (int)length;
}
