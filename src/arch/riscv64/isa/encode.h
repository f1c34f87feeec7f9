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
#define RV_FENCE  0x0330000fu /* fence rw, rw */

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

static inline uint32_t rv_lwu(unsigned rd, int32_t imm, unsigned rs1)
{
	return rv_i_type(RV_LOAD, 6, rd, rs1, imm);
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

static inline uint32_t rv_srliw(unsigned rd, unsigned rs1, unsigned count)
{
	return rv_i_type(0x1b, 5, rd, rs1, (int32_t)count);
}

static inline uint32_t rv_add(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 0, 0, rd, rs1, rs2);
}

static inline uint32_t rv_sub(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 0, 0x20, rd, rs1, rs2);
}

/* The instruction on 32 bits, whose result is extended by its sign; add, sub, addi, shifts, mul, div and rem have it.
 */
static inline uint32_t rv_w(uint32_t word)
{
	return word | 8;
}

static inline uint32_t rv_andi(unsigned rd, unsigned rs1, int32_t imm)
{
	return rv_i_type(RV_OP_IMM, 7, rd, rs1, imm);
}

static inline uint32_t rv_ori(unsigned rd, unsigned rs1, int32_t imm)
{
	return rv_i_type(RV_OP_IMM, 6, rd, rs1, imm);
}

static inline uint32_t rv_xori(unsigned rd, unsigned rs1, int32_t imm)
{
	return rv_i_type(RV_OP_IMM, 4, rd, rs1, imm);
}

static inline uint32_t rv_srai(unsigned rd, unsigned rs1, unsigned count)
{
	return rv_i_type(RV_OP_IMM, 5, rd, rs1, (int32_t)(0x400 | count));
}

static inline uint32_t rv_and(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 7, 0, rd, rs1, rs2);
}

static inline uint32_t rv_or(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 6, 0, rd, rs1, rs2);
}

static inline uint32_t rv_xor(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 4, 0, rd, rs1, rs2);
}

/* Shifts by the low 6 (with rv_w: 5) bits of rs2. */
static inline uint32_t rv_sll(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 1, 0, rd, rs1, rs2);
}

static inline uint32_t rv_srl(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 5, 0, rd, rs1, rs2);
}

static inline uint32_t rv_sra(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 5, 0x20, rd, rs1, rs2);
}

static inline uint32_t rv_mul(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 0, 1, rd, rs1, rs2);
}

/* Divisions by 0 give all ones, that of the least number by -1 gives the least number. */
static inline uint32_t rv_div(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 4, 1, rd, rs1, rs2);
}

static inline uint32_t rv_divu(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 5, 1, rd, rs1, rs2);
}

/* The rest is the dividend where the divisor is 0. */
static inline uint32_t rv_rem(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 6, 1, rd, rs1, rs2);
}

static inline uint32_t rv_remu(unsigned rd, unsigned rs1, unsigned rs2)
{
	return rv_r_type(RV_OP, 7, 1, rd, rs1, rs2);
}

/* Bits 14:12 of loads and stores; stores have the first four. */
enum rv_size {
	RV_BYTE = 0,
	RV_HALF = 1,
	RV_WORD = 2,
	RV_DOUBLE = 3,
	RV_UNSIGNED = 4, /* added to one of the first three: a load that extends with 0 */
};

static inline uint32_t rv_load(unsigned size, unsigned rd, int32_t imm, unsigned rs1)
{
	return rv_i_type(RV_LOAD, size, rd, rs1, imm);
}

static inline uint32_t rv_store(enum rv_size size, unsigned rs2, int32_t imm, unsigned rs1)
{
	return rv_s_type(RV_STORE, size, rs1, rs2, imm);
}

/* Bits 31:27 of an atomic operation. */
enum rv_amo {
	RV_AMOADD = 0,
	RV_AMOSWAP = 1,
	RV_AMOXOR = 4,
	RV_AMOOR = 8,
	RV_AMOAND = 12,
};

/* The order of an atomic operation: an acquire comes before later accesses of the thread, a release after earlier ones.
 */
enum rv_order {
	RV_RELAXED = 0,
	RV_RELEASE = 1,
	RV_ACQUIRE = 2,
	RV_ORDERED = RV_ACQUIRE | RV_RELEASE,
};

static inline uint32_t rv_a_type(unsigned operation, enum rv_order order, enum rv_size size, unsigned rd, unsigned rs2,
				 unsigned rs1)
{
	return rv_r_type(RV_AMO, size, operation << 2 | (unsigned)order, rd, rs1, rs2);
}

/* rd = memory at rs1; the memory becomes what the operation makes of it and rs2 */
static inline uint32_t rv_amo(enum rv_amo operation, enum rv_order order, enum rv_size size, unsigned rd, unsigned rs2,
			      unsigned rs1)
{
	return rv_a_type(operation, order, size, rd, rs2, rs1);
}

static inline uint32_t rv_lr(enum rv_order order, enum rv_size size, unsigned rd, unsigned rs1)
{
	return rv_a_type(2, order, size, rd, RV_ZERO, rs1);
}

/* rd = 0 if rs2 was stored */
static inline uint32_t rv_sc(enum rv_order order, enum rv_size size, unsigned rd, unsigned rs2, unsigned rs1)
{
	return rv_a_type(3, order, size, rd, rs2, rs1);
}

#endif
