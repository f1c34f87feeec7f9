/*
 * aarch64: encoders, one function per instruction, named after it; each
 * returns the instruction's word.  Offsets are in bytes, from the instruction
 * (adrp: from its page).  An operand that does not fit is cut: ask the
 * *_reaches function first.
 *
 * Freestanding and pure; callers: the stubs' builder of the target, the
 * relocator.  Source of the formats: Arm Architecture Reference Manual,
 * "A64 Base Instruction Descriptions".
 */
#ifndef ARCH_AARCH64_ISA_ENCODE_H
#define ARCH_AARCH64_ISA_ENCODE_H

#include "arch/generic/isa/bits.h"

/* Registers are their numbers; 31 is sp or the zero register, as the instruction says. */
enum a64_register {
	A64_X0 = 0,
	A64_X16 = 16,
	A64_X17 = 17,
	A64_X29 = 29,
	A64_X30 = 30,
	A64_SP = 31,
	A64_XZR = 31,
};

enum a64_condition {
	A64_EQ,
	A64_NE,
	A64_HS,
	A64_LO,
	A64_MI,
	A64_PL,
	A64_VS,
	A64_VC,
	A64_HI,
	A64_LS,
	A64_GE,
	A64_LT,
	A64_GT,
	A64_LE,
	A64_AL,
};

#define A64_NOP	      0xd503201fu
#define A64_BTI_C     0xd503245fu
#define A64_BRK	      0xd4200000u /* brk #0 */
#define A64_PACIASP   0xd503233fu
#define A64_AUTIA1716 0xd503219fu

/* Does a signed field of so many bits, which counts words, hold the offset? */
static inline bool a64_words_reach(int64_t offset, unsigned bits)
{
	return isa_fits(offset, bits + 2) && !(offset & 3);
}

static inline bool a64_b_reaches(int64_t offset)
{
	return a64_words_reach(offset, 26);
}

static inline uint32_t a64_b(int64_t offset)
{
	return 0x14000000u | isa_field((uint32_t)(offset >> 2), 0, 26);
}

static inline uint32_t a64_bl(int64_t offset)
{
	return 0x94000000u | isa_field((uint32_t)(offset >> 2), 0, 26);
}

/* b.cond, cbz and cbnz; and loads of a literal */
static inline bool a64_b_cond_reaches(int64_t offset)
{
	return a64_words_reach(offset, 19);
}

static inline uint32_t a64_b_cond(enum a64_condition condition, int64_t offset)
{
	return 0x54000000u | isa_field((uint32_t)(offset >> 2), 0, 19) << 5 | (uint32_t)condition;
}

static inline uint32_t a64_cbz_x(unsigned rt, int64_t offset)
{
	return 0xb4000000u | isa_field((uint32_t)(offset >> 2), 0, 19) << 5 | rt;
}

static inline uint32_t a64_cbnz_x(unsigned rt, int64_t offset)
{
	return 0xb5000000u | isa_field((uint32_t)(offset >> 2), 0, 19) << 5 | rt;
}

static inline bool a64_adr_reaches(int64_t offset)
{
	return isa_fits(offset, 21);
}

static inline uint32_t a64_adr_form(uint32_t opcode, unsigned rd, uint32_t imm)
{
	return opcode | isa_field(imm, 0, 2) << 29 | isa_field(imm, 2, 19) << 5 | rd;
}

static inline uint32_t a64_adr(unsigned rd, int64_t offset)
{
	return a64_adr_form(0x10000000u, rd, (uint32_t)offset);
}

/* The distance between the pages of two addresses, as adrp takes it. */
static inline int64_t a64_page_offset(uint64_t from, uint64_t to)
{
	return (int64_t)((to & ~UINT64_C(0xfff)) - (from & ~UINT64_C(0xfff)));
}

static inline bool a64_adrp_reaches(int64_t page_offset)
{
	return isa_fits(page_offset, 33) && !(page_offset & 0xfff);
}

static inline uint32_t a64_adrp(unsigned rd, int64_t page_offset)
{
	return a64_adr_form(0x90000000u, rd, (uint32_t)(page_offset >> 12));
}

/* ldr xt, [xn, #offset]: 0 to 32760, a multiple of 8 */
static inline uint32_t a64_ldr_x(unsigned rt, unsigned rn, uint32_t offset)
{
	return 0xf9400000u | isa_field(offset >> 3, 0, 12) << 10 | rn << 5 | rt;
}

static inline uint32_t a64_str_x(unsigned rt, unsigned rn, uint32_t offset)
{
	return 0xf9000000u | isa_field(offset >> 3, 0, 12) << 10 | rn << 5 | rt;
}

/* ldr xt, [xn, xm] */
static inline uint32_t a64_ldr_x_at(unsigned rt, unsigned rn, unsigned rm)
{
	return 0xf8606800u | rm << 16 | rn << 5 | rt;
}

/* ldr wt, literal */
static inline uint32_t a64_ldr_literal_w(unsigned rt, int64_t offset)
{
	return 0x18000000u | isa_field((uint32_t)(offset >> 2), 0, 19) << 5 | rt;
}

/* ldr xt, literal */
static inline uint32_t a64_ldr_literal_x(unsigned rt, int64_t offset)
{
	return 0x58000000u | isa_field((uint32_t)(offset >> 2), 0, 19) << 5 | rt;
}

/* mov between registers other than sp */
static inline uint32_t a64_mov_x(unsigned rd, unsigned rm)
{
	return 0xaa0003e0u | rm << 16 | rd;
}

/* mov to or from sp; also add xd, xn, #imm, with imm below 4096 */
static inline uint32_t a64_add_imm_x(unsigned rd, unsigned rn, uint32_t imm)
{
	return 0x91000000u | isa_field(imm, 0, 12) << 10 | rn << 5 | rd;
}

static inline uint32_t a64_sub_imm_x(unsigned rd, unsigned rn, uint32_t imm)
{
	return 0xd1000000u | isa_field(imm, 0, 12) << 10 | rn << 5 | rd;
}

/* add xd, xn, #imm, with imm a multiple of 4096 below 1 << 24. */
static inline uint32_t a64_add_page_x(unsigned rd, unsigned rn, uint32_t imm)
{
	return a64_add_imm_x(rd, rn, imm >> 12) | 1u << 22;
}

/* movz and movk take 16 bits of a value to bits [shift, shift + 16); shift is 0, 16, 32 or 48. */
static inline uint32_t a64_movz_x(unsigned rd, uint32_t imm, unsigned shift)
{
	return 0xd2800000u | (uint32_t)(shift / 16) << 21 | isa_field(imm, 0, 16) << 5 | rd;
}

static inline uint32_t a64_movk_x(unsigned rd, uint32_t imm, unsigned shift)
{
	return 0xf2800000u | (uint32_t)(shift / 16) << 21 | isa_field(imm, 0, 16) << 5 | rd;
}

/* cmp sp, xm, as an unsigned or signed comparison of 64 bits; rn 31 is sp */
static inline uint32_t a64_cmp_sp_x(unsigned rn, unsigned rm)
{
	return 0xeb20601fu | rm << 16 | rn << 5;
}

/* cmp xn, xm; 31 is the zero register */
static inline uint32_t a64_cmp_x(unsigned rn, unsigned rm)
{
	return 0xeb00001fu | rm << 16 | rn << 5;
}

static inline uint32_t a64_br(unsigned rn)
{
	return 0xd61f0000u | rn << 5;
}

static inline uint32_t a64_blr(unsigned rn)
{
	return 0xd63f0000u | rn << 5;
}

static inline uint32_t a64_ret(unsigned rn)
{
	return 0xd65f0000u | rn << 5;
}

/* The thread pointer. */
static inline uint32_t a64_mrs_tpidr_el0(unsigned rt)
{
	return 0xd53bd040u | rt;
}

#endif
