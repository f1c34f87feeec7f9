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
#define A64_DMB_ISH   0xd5033bbfu
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

/* The register's other bits are 1, and these 16 the inverse of imm's. */
static inline uint32_t a64_movn_x(unsigned rd, uint32_t imm, unsigned shift)
{
	return 0x92800000u | (uint32_t)(shift / 16) << 21 | isa_field(imm, 0, 16) << 5 | rd;
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

/*
 * The instruction on w registers, made of the one on x registers.  Moves of bit fields need a64_bfm_w(); loads and
 * stores have names of their own.
 */
static inline uint32_t a64_w(uint32_t word)
{
	return word & 0x7fffffffu;
}

static inline uint32_t a64_three(uint32_t opcode, unsigned rd, unsigned rn, unsigned rm)
{
	return opcode | rm << 16 | rn << 5 | rd;
}

static inline uint32_t a64_add_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x8b000000u, rd, rn, rm);
}

static inline uint32_t a64_sub_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0xcb000000u, rd, rn, rm);
}

static inline uint32_t a64_and_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x8a000000u, rd, rn, rm);
}

static inline uint32_t a64_orr_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0xaa000000u, rd, rn, rm);
}

static inline uint32_t a64_eor_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0xca000000u, rd, rn, rm);
}

static inline uint32_t a64_tst_x(unsigned rn, unsigned rm)
{
	return a64_three(0xea000000u, A64_XZR, rn, rm);
}

static inline uint32_t a64_mul_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x9b007c00u, rd, rn, rm);
}

/* rd = ra - rn * rm */
static inline uint32_t a64_msub_x(unsigned rd, unsigned rn, unsigned rm, unsigned ra)
{
	return a64_three(0x9b008000u, rd, rn, rm) | ra << 10;
}

/* Divisions by 0 give 0, that of the least number by -1 gives the least number. */
static inline uint32_t a64_udiv_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x9ac00800u, rd, rn, rm);
}

static inline uint32_t a64_sdiv_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x9ac00c00u, rd, rn, rm);
}

/* Shifts by the low 6 (on w registers: 5) bits of rm. */
static inline uint32_t a64_lslv_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x9ac02000u, rd, rn, rm);
}

static inline uint32_t a64_lsrv_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x9ac02400u, rd, rn, rm);
}

static inline uint32_t a64_asrv_x(unsigned rd, unsigned rn, unsigned rm)
{
	return a64_three(0x9ac02800u, rd, rn, rm);
}

/* cmp xn, #imm and cmn xn, #imm, with imm below 4096 */
static inline uint32_t a64_cmp_imm_x(unsigned rn, uint32_t imm)
{
	return 0xf100001fu | isa_field(imm, 0, 12) << 10 | rn << 5;
}

static inline uint32_t a64_cmn_imm_x(unsigned rn, uint32_t imm)
{
	return 0xb100001fu | isa_field(imm, 0, 12) << 10 | rn << 5;
}

/*
 * A value as the operand of a64_and_imm_x() and its kin, which take a run of ones in 2, 4, ... 64 bits, turned by any
 * number of bits and repeated.  False: the value is not such.  For w registers the value has its 32 bits twice.
 */
static inline bool a64_bitmask(uint32_t *operand, uint64_t value)
{
	unsigned size = 64;
	uint64_t mask;

	while (size > 2 && isa_signed(value, size / 2) == isa_signed(value >> size / 2, size / 2))
		size /= 2;
	mask = UINT64_MAX >> (64 - size);
	value &= mask;
	for (unsigned turn = 0; turn < size; turn++) {
		/* The value before it was turned to the right. */
		uint64_t run = turn ? (value << turn | value >> (size - turn)) & mask : value;

		if (run && run != mask && !(run & (run + 1))) {
			uint32_t ones = (uint32_t)__builtin_popcountll(run);

			*operand = (uint32_t)(size == 64) << 22 | turn << 16 |
				   (isa_field(~(2 * size - 1), 0, 6) | (ones - 1)) << 10;
			return true;
		}
	}
	return false;
}

static inline uint32_t a64_and_imm_x(unsigned rd, unsigned rn, uint32_t operand)
{
	return 0x92000000u | operand | rn << 5 | rd;
}

static inline uint32_t a64_orr_imm_x(unsigned rd, unsigned rn, uint32_t operand)
{
	return 0xb2000000u | operand | rn << 5 | rd;
}

static inline uint32_t a64_eor_imm_x(unsigned rd, unsigned rn, uint32_t operand)
{
	return 0xd2000000u | operand | rn << 5 | rd;
}

static inline uint32_t a64_tst_imm_x(unsigned rn, uint32_t operand)
{
	return 0xf200001fu | operand | rn << 5;
}

/* Bits [first, last] of rn go to rd's bit 0 (first <= last), or bits [0, last] to rd's bit 64 - first. */
static inline uint32_t a64_ubfm_x(unsigned rd, unsigned rn, unsigned first, unsigned last)
{
	return 0xd3400000u | first << 16 | last << 10 | rn << 5 | rd;
}

/* Move bits first to last of rn to the low end of rd, as a64_ubfm_x() does; all bits above are copies of bit last. */
static inline uint32_t a64_sbfm_x(unsigned rd, unsigned rn, unsigned first, unsigned last)
{
	return 0x93400000u | first << 16 | last << 10 | rn << 5 | rd;
}

/* The two moves of bit fields on w registers, with 32 in place of 64. */
static inline uint32_t a64_bfm_w(uint32_t word)
{
	return word & 0x7fbfffffu;
}

static inline uint32_t a64_rev_x(unsigned rd, unsigned rn)
{
	return 0xdac00c00u | rn << 5 | rd;
}

static inline uint32_t a64_rev_w(unsigned rd, unsigned rn)
{
	return 0x5ac00800u | rn << 5 | rd;
}

/* Bytes change places within each 16 bits. */
static inline uint32_t a64_rev16_w(unsigned rd, unsigned rn)
{
	return 0x5ac00400u | rn << 5 | rd;
}

/* Loads and stores of a register; LDRS extends the sign to 64 bits. */
enum a64_access {
	A64_STRB = 0x38000000,
	A64_LDRB = 0x38400000,
	A64_LDRSB = 0x38800000,
	A64_STRH = 0x78000000,
	A64_LDRH = 0x78400000,
	A64_LDRSH = 0x78800000,
	A64_STR_W = (int)0xb8000000,
	A64_LDR_W = (int)0xb8400000,
	A64_LDRSW = (int)0xb8800000,
	A64_STR_X = (int)0xf8000000,
	A64_LDR_X = (int)0xf8400000,
};

/* The address is rn + scaled * the size of what is moved; scaled is 0 to 4095. */
static inline uint32_t a64_access_scaled(enum a64_access access, unsigned rt, unsigned rn, uint32_t scaled)
{
	return (uint32_t)access | 1u << 24 | isa_field(scaled, 0, 12) << 10 | rn << 5 | rt;
}

/* ldur and its kin: an offset of -256 to 255 */
static inline uint32_t a64_access_near(enum a64_access access, unsigned rt, unsigned rn, int32_t offset)
{
	return (uint32_t)access | isa_field((uint32_t)offset, 0, 9) << 12 | rn << 5 | rt;
}

/* stp xt, xt2, [xn, #offset] and its kin: -512 to 504, a multiple of 8 */
static inline uint32_t a64_pair(uint32_t opcode, unsigned rt, unsigned rt2, unsigned rn, int32_t offset)
{
	return opcode | isa_field((uint32_t)(offset >> 3), 0, 7) << 15 | rt2 << 10 | rn << 5 | rt;
}

static inline uint32_t a64_stp_x(unsigned rt, unsigned rt2, unsigned rn, int32_t offset)
{
	return a64_pair(0xa9000000u, rt, rt2, rn, offset);
}

static inline uint32_t a64_ldp_x(unsigned rt, unsigned rt2, unsigned rn, int32_t offset)
{
	return a64_pair(0xa9400000u, rt, rt2, rn, offset);
}

/* stp xt, xt2, [xn, #offset]! */
static inline uint32_t a64_stp_pre_x(unsigned rt, unsigned rt2, unsigned rn, int32_t offset)
{
	return a64_pair(0xa9800000u, rt, rt2, rn, offset);
}

/* ldp xt, xt2, [xn], #offset */
static inline uint32_t a64_ldp_post_x(unsigned rt, unsigned rt2, unsigned rn, int32_t offset)
{
	return a64_pair(0xa8c00000u, rt, rt2, rn, offset);
}

/* Exclusive loads and stores of 64 bits or 32; rs, which says whether the store failed, is none of the others. */
static inline uint32_t a64_exclusive(uint32_t opcode, bool wide)
{
	return opcode | (uint32_t)wide << 30;
}

static inline uint32_t a64_ldxr(bool wide, unsigned rt, unsigned rn)
{
	return a64_exclusive(0x885f7c00u, wide) | rn << 5 | rt;
}

static inline uint32_t a64_stxr(bool wide, unsigned rs, unsigned rt, unsigned rn)
{
	return a64_exclusive(0x88007c00u, wide) | rs << 16 | rn << 5 | rt;
}

/* No earlier access of the thread comes after this store. */
static inline uint32_t a64_stlxr(bool wide, unsigned rs, unsigned rt, unsigned rn)
{
	return a64_exclusive(0x8800fc00u, wide) | rs << 16 | rn << 5 | rt;
}

#endif
