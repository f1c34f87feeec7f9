/*
 * riscv64: encoders, one function per instruction, named after it; each
 * returns the instruction's word.  Offsets are in bytes, from the instruction.
 * An operand that does not fit is cut: ask the *_reaches function, or split
 * the offset, first.
 *
 * Freestanding and pure; callers: the stubs' builder of the target, the
 * relocator.  Source of the formats: The RISC-V Instruction Set Manual,
 * volume I, "RV32/64G Instruction Set Listings".
 */
#ifndef ARCH_RISCV64_ISA_ENCODE_H
#define ARCH_RISCV64_ISA_ENCODE_H

#include "arch/generic/isa/bits.h"

enum rv_register {
	RV_ZERO,
	RV_RA,
	RV_SP,
	RV_GP,
	RV_TP,
	RV_T0,
	RV_T1,
	RV_T2,
	RV_S0,
	RV_S1,
	RV_A0,
	RV_A1,
	RV_A2,
	RV_A3,
	RV_A4,
	RV_A5,
	RV_A6,
	RV_A7,
	RV_S2,
	RV_S3,
	RV_S4,
	RV_S5,
	RV_S6,
	RV_S7,
	RV_S8,
	RV_S9,
	RV_S10,
	RV_S11,
	RV_T3,
	RV_T4,
	RV_T5,
	RV_T6,
};

/* The major opcodes, bits 6:0. */
enum rv_opcode {
	RV_LOAD = 0x03,
	RV_OP_IMM = 0x13,
	RV_AUIPC = 0x17,
	RV_STORE = 0x23,
	RV_AMO = 0x2f,
	RV_OP = 0x33,
	RV_LUI = 0x37,
	RV_BRANCH = 0x63,
	RV_JALR = 0x67,
	RV_JAL = 0x6f,
	RV_SYSTEM = 0x73,
};

/* Bits 14:12 of a branch. */
enum rv_condition {
	RV_EQ = 0,
	RV_NE = 1,
	RV_LT = 4,
	RV_GE = 5,
	RV_LTU = 6,
	RV_GEU = 7,
};

#define RV_NOP	  0x00000013u /* addi x0, x0, 0 */
#define RV_C_NOP  0x0001u
#define RV_EBREAK 0x00100073u

static inline uint32_t rv_r_type(uint32_t opcode, uint32_t funct3, uint32_t funct7, unsigned rd, unsigned rs1,
				 unsigned rs2)
{
	return opcode | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25;
}

static inline uint32_t rv_i_type(uint32_t opcode, uint32_t funct3, unsigned rd, unsigned rs1, int32_t imm)
{
	return opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (uint32_t)imm << 20;
}

static inline uint32_t rv_s_type(uint32_t opcode, uint32_t funct3, unsigned rs1, unsigned rs2, int32_t imm)
{
	uint32_t bits = (uint32_t)imm;

	return opcode | isa_field(bits, 0, 5) << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | isa_field(bits, 5, 7) << 25;
}

/*
 * An offset of up to 32 bits as the two operands of an auipc (hi, a multiple of
 * 4096) and of the instruction after it (lo, 12 bits signed), which adds them
 * to the auipc's address.  False: it is out of their reach.
 */
static inline bool rv_pcrel_split(int64_t offset, int32_t *hi, int32_t *lo)
{
	int64_t high = (offset + 0x800) & ~INT64_C(0xfff);

	*hi = (int32_t)high;
	*lo = (int32_t)(offset - high);
	return isa_fits(high, 32);
}

static inline uint32_t rv_lui(unsigned rd, int32_t hi)
{
	return RV_LUI | rd << 7 | ((uint32_t)hi & 0xfffff000);
}

static inline uint32_t rv_auipc(unsigned rd, int32_t hi)
{
	return RV_AUIPC | rd << 7 | ((uint32_t)hi & 0xfffff000);
}

static inline bool rv_jal_reaches(int64_t offset)
{
	return isa_fits(offset, 21) && !(offset & 1);
}

static inline uint32_t rv_jal(unsigned rd, int64_t offset)
{
	uint32_t bits = (uint32_t)offset;

	return RV_JAL | rd << 7 | isa_field(bits, 12, 8) << 12 | isa_field(bits, 11, 1) << 20 |
	       isa_field(bits, 1, 10) << 21 | isa_field(bits, 20, 1) << 31;
}

static inline uint32_t rv_j(int64_t offset)
{
	return rv_jal(RV_ZERO, offset);
}

static inline uint32_t rv_jalr(unsigned rd, unsigned rs1, int32_t imm)
{
	return rv_i_type(RV_JALR, 0, rd, rs1, imm);
}

static inline uint32_t rv_jr(unsigned rs1)
{
	return rv_jalr(RV_ZERO, rs1, 0);
}

static inline bool rv_branch_reaches(int64_t offset)
{
	return isa_fits(offset, 13) && !(offset & 1);
}

static inline uint32_t rv_branch(enum rv_condition condition, unsigned rs1, unsigned rs2, int64_t offset)
{
	uint32_t bits = (uint32_t)offset;

	return RV_BRANCH | isa_field(bits, 11, 1) << 7 | isa_field(bits, 1, 4) << 8 | (uint32_t)condition << 12 |
	       rs1 << 15 | rs2 << 20 | isa_field(bits, 5, 6) << 25 | isa_field(bits, 12, 1) << 31;
}

static inline uint32_t rv_beq(unsigned rs1, unsigned rs2, int64_t offset)
{
	return rv_branch(RV_EQ, rs1, rs2, offset);
}

static inline uint32_t rv_bne(unsigned rs1, unsigned rs2, int64_t offset)
{
	return rv_branch(RV_NE, rs1, rs2, offset);
}

static inline uint32_t rv_bltu(unsigned rs1, unsigned rs2, int64_t offset)
{
	return rv_branch(RV_LTU, rs1, rs2, offset);
}

static inline uint32_t rv_bgeu(unsigned rs1, unsigned rs2, int64_t offset)
{
	return rv_branch(RV_GEU, rs1, rs2, offset);
}

static inline uint32_t rv_lw(unsigned rd, int32_t imm, unsigned rs1)
{
	return rv_i_type(RV_LOAD, 2, rd, rs1, imm);
}

static inline uint32_t rv_ld(unsigned rd, int32_t imm, unsigned rs1)
{
	return rv_i_type(RV_LOAD, 3, rd, rs1, imm);
}

static inline uint32_t rv_sw(unsigned rs2, int32_t imm, unsigned rs1)
{
	return rv_s_type(RV_STORE, 2, rs1, rs2, imm);
}

static inline uint32_t rv_sd(unsigned rs2, int32_t imm, unsigned rs1)
{
	return rv_s_type(RV_STORE, 3, rs1, rs2, imm);
}

static inline uint32_t rv_addi(unsigned rd, unsigned rs1, int32_t imm)
{
	return rv_i_type(RV_OP_IMM, 0, rd, rs1, imm);
}

static inline uint32_t rv_addiw(unsigned rd, unsigned rs1, int32_t imm)
{
	return rv_i_type(0x1b, 0, rd, rs1, imm);
}

static inline uint32_t rv_mv(unsigned rd, unsigned rs1)
{
	return rv_addi(rd, rs1, 0);
}

static inline uint32_t rv_slli(unsigned rd, unsigned rs1, unsigned count)
{
	return rv_i_type(RV_OP_IMM, 1, rd, rs1, (int32_t)count);
}

static inline uint32_t rv_srli(unsigned rd, unsigned rs1, unsigned count)
{
	return rv_i_type(RV_OP_IMM, 5, rd, rs1, (int32_t)count);
}

static inline uint32_t rv_add(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 0, 0, rd, rs1, rs2);
}

static inline uint32_t rv_sub(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 0, 0x20, rd, rs1, rs2);
}

#endif
