/*
 * riscv64: the fields of an instruction's word.  Pure; callers: the decoders
 * beside this file.
 */
#ifndef ARCH_RISCV64_ISA_FIELDS_H
#define ARCH_RISCV64_ISA_FIELDS_H

#include "encode.h"

/* 2 or 4, from the first 16 bits; 0 = longer, which no instruction known today is. */
static inline size_t rv_length(uint16_t first)
{
	if ((first & 3) != 3)
		return 2;
	return (first & 0x1c) != 0x1c ? 4 : 0;
}

static inline uint32_t rv_opcode(uint32_t word)
{
	return isa_field(word, 0, 7);
}

static inline unsigned rv_rd(uint32_t word)
{
	return isa_field(word, 7, 5);
}

static inline uint32_t rv_funct3(uint32_t word)
{
	return isa_field(word, 12, 3);
}

static inline unsigned rv_rs1(uint32_t word)
{
	return isa_field(word, 15, 5);
}

static inline unsigned rv_rs2(uint32_t word)
{
	return isa_field(word, 20, 5);
}

static inline int64_t rv_imm_i(uint32_t word)
{
	return isa_signed(word >> 20, 12);
}

static inline int64_t rv_imm_u(uint32_t word)
{
	return isa_signed(word & 0xfffff000, 32);
}

static inline int64_t rv_imm_j(uint32_t word)
{
	return isa_signed(isa_field(word, 12, 8) << 12 | isa_field(word, 20, 1) << 11 | isa_field(word, 21, 10) << 1 |
				  isa_field(word, 31, 1) << 20,
			  21);
}

static inline int64_t rv_imm_b(uint32_t word)
{
	return isa_signed(isa_field(word, 7, 1) << 11 | isa_field(word, 8, 4) << 1 | isa_field(word, 25, 6) << 5 |
				  isa_field(word, 31, 1) << 12,
			  13);
}

/* c.j */
static inline int64_t rv_imm_cj(uint32_t word)
{
	return isa_signed(isa_field(word, 3, 3) << 1 | isa_field(word, 11, 1) << 4 | isa_field(word, 2, 1) << 5 |
				  isa_field(word, 7, 1) << 6 | isa_field(word, 6, 1) << 7 | isa_field(word, 9, 2) << 8 |
				  isa_field(word, 8, 1) << 10 | isa_field(word, 12, 1) << 11,
			  12);
}

/* c.beqz, c.bnez */
static inline int64_t rv_imm_cb(uint32_t word)
{
	return isa_signed(isa_field(word, 3, 2) << 1 | isa_field(word, 10, 2) << 3 | isa_field(word, 2, 1) << 5 |
				  isa_field(word, 5, 2) << 6 | isa_field(word, 12, 1) << 8,
			  9);
}

/* Bits 15:13 and 1:0 of a 16-bit instruction. */
static inline uint32_t rv_c_opcode(uint32_t half)
{
	return isa_field(half, 13, 3) << 2 | isa_field(half, 0, 2);
}

enum {
	RV_C_J = 5 << 2 | 1,
	RV_C_BEQZ = 6 << 2 | 1,
	RV_C_BNEZ = 7 << 2 | 1,
};

/* c.jr rs1, c.jalr rs1: their register, 0 = not that. */
static inline unsigned rv_c_jr(uint32_t half)
{
	return (half & 0xf07f) == 0x8002 ? rv_rd(half) : 0;
}

static inline unsigned rv_c_jalr(uint32_t half)
{
	return (half & 0xf07f) == 0x9002 ? rv_rd(half) : 0;
}

#endif
