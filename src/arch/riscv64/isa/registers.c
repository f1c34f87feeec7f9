/*
 * riscv64: the registers that instructions name (see registers.h).  Pure.
 * Source: The RISC-V Instruction Set Manual, volume I, the chapters of I, M, A, F, D, C, Zcb, V and Zimop.
 */
#include "decode.h"
#include "fields.h"
#include "registers.h"

#define BIT(number) (1u << (number))
#define NOTHING	    ((struct rv_registers){0, 0})

/* Fields of 16-bit instructions: registers x8 to x15 have three bits. */
static uint32_t low_three(uint32_t half)
{
	return BIT(8 + isa_field(half, 2, 3));
}

static uint32_t high_three(uint32_t half)
{
	return BIT(8 + isa_field(half, 7, 3));
}

static uint32_t rd_bit(uint32_t word)
{
	return BIT(rv_rd(word));
}

static uint32_t rs1_bit(uint32_t word)
{
	return BIT(rv_rs1(word));
}

static uint32_t rs2_bit(uint32_t word)
{
	return BIT(rv_rs2(word));
}

/* Moves and conversions between general and floating-point registers, and comparisons. */
static struct rv_registers of_float(uint32_t word)
{
	switch (isa_field(word, 27, 5)) {
	case 0x14: /* comparisons */
	case 0x18: /* to integers */
	case 0x1c: /* fmv.x, fclass */
		return (struct rv_registers){0, rd_bit(word)};
	case 0x1a: /* from integers */
	case 0x1e: /* fmv */
		return (struct rv_registers){rs1_bit(word), 0};
	case 0x16: /* fmvp */
		return (struct rv_registers){rs1_bit(word) | rs2_bit(word), 0};
	default:
		return NOTHING;
	}
}

static struct rv_registers of_vector(uint32_t word)
{
	switch (rv_funct3(word)) {
	case 7: /* vsetivli has a number in place of rs1; vsetvl another register */
		return (struct rv_registers){
			(word >> 30 == 3 ? 0 : rs1_bit(word)) | (word >> 30 == 2 ? rs2_bit(word) : 0), rd_bit(word)};
	case 4:
	case 6:
		return (struct rv_registers){rs1_bit(word), 0};
	case 2: /* vmv.x.s, vcpop, vfirst */
		return (struct rv_registers){0, isa_field(word, 26, 6) == 0x10 ? rd_bit(word) : 0};
	default:
		return NOTHING;
	}
}

/* Loads and stores of floating-point and vector registers: the distance between elements may be in a register. */
static struct rv_registers of_other_memory(uint32_t word)
{
	bool is_vector = rv_funct3(word) == 0 || rv_funct3(word) >= 5;

	return (struct rv_registers){rs1_bit(word) | (is_vector && isa_field(word, 26, 2) == 2 ? rs2_bit(word) : 0), 0};
}

static struct rv_registers of_system(uint32_t word)
{
	switch (rv_funct3(word)) {
	case 1: /* control registers */
	case 2:
	case 3:
		return (struct rv_registers){rs1_bit(word), rd_bit(word)};
	case 0:
		return NOTHING;
	default:
		return (struct rv_registers){0, rd_bit(word)};
	}
}

static struct rv_registers of_word(uint32_t word)
{
	switch (rv_opcode(word)) {
	case RV_LOAD:
	case RV_OP_IMM:
	case 0x1b:
	case RV_JALR:
		return (struct rv_registers){rs1_bit(word), rd_bit(word)};
	case RV_AUIPC:
	case RV_LUI:
	case RV_JAL:
		return (struct rv_registers){0, rd_bit(word)};
	case RV_OP:
	case 0x3b:
	case RV_AMO:
		return (struct rv_registers){rs1_bit(word) | rs2_bit(word), rd_bit(word)};
	case RV_STORE:
	case RV_BRANCH:
		return (struct rv_registers){rs1_bit(word) | rs2_bit(word), 0};
	case 0x07:
	case 0x27:
		return of_other_memory(word);
	case 0x0f: /* operations on cache blocks */
		return (struct rv_registers){rv_funct3(word) == 2 ? rs1_bit(word) : 0, 0};
	case 0x53:
		return of_float(word);
	case 0x57:
		return of_vector(word);
	case RV_SYSTEM:
		return of_system(word);
	default:
		return NOTHING;
	}
}

/* Bits 1:0 are 0: loads and stores by x8 to x15. */
static struct rv_registers of_first(uint32_t half)
{
	switch (rv_c_opcode(half) >> 2) {
	case 0: /* c.addi4spn */
		return (struct rv_registers){BIT(RV_SP), low_three(half)};
	case 2:
	case 3:
		return (struct rv_registers){high_three(half), low_three(half)};
	case 4: /* Zcb */
		if (isa_field(half, 10, 3) <= 1)
			return (struct rv_registers){high_three(half), low_three(half)};
		return (struct rv_registers){high_three(half) | low_three(half), 0};
	case 6:
	case 7:
		return (struct rv_registers){high_three(half) | low_three(half), 0};
	default: /* of floating-point registers */
		return (struct rv_registers){high_three(half), 0};
	}
}

static struct rv_registers of_arithmetic(uint32_t half)
{
	uint32_t rd = high_three(half), which = isa_field(half, 10, 2), what = isa_field(half, 5, 2);
	bool is_one = which != 3 || (isa_field(half, 12, 1) && what == 3); /* zext and its like */

	return (struct rv_registers){rd | (is_one ? 0 : low_three(half)), rd};
}

/* Bits 1:0 are 1. */
static struct rv_registers of_second(uint32_t half)
{
	switch (rv_c_opcode(half) >> 2) {
	case 0:
	case 1:
		return (struct rv_registers){rd_bit(half), rd_bit(half)};
	case 2:
		return (struct rv_registers){0, rd_bit(half)};
	case 3: /* c.lui; with 0 it may be another operation (Zcmop) */
		if (rv_rd(half) == RV_SP)
			return (struct rv_registers){BIT(RV_SP), BIT(RV_SP)};
		return (struct rv_registers){0, isa_field(half, 2, 5) || isa_field(half, 12, 1) ? rd_bit(half) : 0};
	case 4:
		return of_arithmetic(half);
	case 5:
		return NOTHING;
	default:
		return (struct rv_registers){high_three(half), 0};
	}
}

/* Bits 1:0 are 2. */
static struct rv_registers of_third(uint32_t half)
{
	uint32_t rs2 = BIT(isa_field(half, 2, 5));

	switch (rv_c_opcode(half) >> 2) {
	case 0:
		return (struct rv_registers){rd_bit(half), rd_bit(half)};
	case 2:
	case 3:
		return (struct rv_registers){BIT(RV_SP), rd_bit(half)};
	case 4:
		if (rs2 == BIT(RV_ZERO)) /* c.jr, c.jalr, c.ebreak */
			return (struct rv_registers){rd_bit(half),
						     isa_field(half, 12, 1) && rv_rd(half) ? BIT(RV_RA) : 0};
		return (struct rv_registers){rs2 | (isa_field(half, 12, 1) ? rd_bit(half) : 0), rd_bit(half)};
	case 6:
	case 7:
		return (struct rv_registers){BIT(RV_SP) | rs2, 0};
	default:
		return (struct rv_registers){BIT(RV_SP), 0};
	}
}

struct rv_registers rv_registers(const uint8_t *code, size_t length)
{
	struct rv_registers named;
	uint32_t half;

	if (length == 4) {
		named = of_word(isa_load32(code));
	} else {
		half = isa_load16(code);
		named = (half & 3) == 0 ? of_first(half) : (half & 3) == 1 ? of_second(half) : of_third(half);
	}
	named.reads &= ~BIT(RV_ZERO);
	named.writes &= ~BIT(RV_ZERO);
	return named;
}

static bool access_of_half(struct rv_access *access, uint32_t half)
{
	bool is_double = rv_c_opcode(half) >> 2 & 1;
	uint32_t offset;

	switch (rv_c_opcode(half)) {
	case 2 << 2 | 2: /* c.lwsp */
	case 3 << 2 | 2: /* c.ldsp */
		offset = isa_field(half, 12, 1) << 5;
		offset |= is_double ? isa_field(half, 5, 2) << 3 | isa_field(half, 2, 3) << 6
				    : isa_field(half, 4, 3) << 2 | isa_field(half, 2, 2) << 6;
		*access = (struct rv_access){RV_SP, rv_rd(half), is_double ? 8 : 4, offset, false};
		return true;
	case 6 << 2 | 2: /* c.swsp */
	case 7 << 2 | 2: /* c.sdsp */
		offset = is_double ? isa_field(half, 10, 3) << 3 | isa_field(half, 7, 3) << 6
				   : isa_field(half, 9, 4) << 2 | isa_field(half, 7, 2) << 6;
		*access = (struct rv_access){RV_SP, isa_field(half, 2, 5), is_double ? 8 : 4, offset, true};
		return true;
	default:
		return false;
	}
}

bool rv_access(struct rv_access *access, const uint8_t *code, size_t length)
{
	uint32_t word;

	if (length != 4)
		return access_of_half(access, isa_load16(code));
	word = isa_load32(code);
	if (rv_opcode(word) == RV_LOAD)
		*access =
			(struct rv_access){rv_rs1(word), rv_rd(word), BIT(rv_funct3(word) & 3), rv_imm_i(word), false};
	else if (rv_opcode(word) == RV_STORE)
		*access = (struct rv_access){rv_rs1(word), rv_rs2(word), BIT(rv_funct3(word) & 3),
					     isa_signed(word >> 25 << 5 | rv_rd(word), 12), true};
	else
		return false;
	return true;
}

unsigned rv_free_register(const uint8_t *code, size_t length)
{
	static const uint8_t candidates[] = {RV_T1, RV_T3, RV_T4, RV_T5, RV_T6};
	uint32_t named = 0;

	for (size_t at = 0; at < length;) {
		struct isa_instruction in;
		struct rv_registers registers;

		if (rv_decode(&in, code + at, length - at, 0) < 0)
			break; /* padding behind the function's end */
		registers = rv_registers(code + at, in.length);
		named |= registers.reads | registers.writes;
		at += in.length;
	}
	for (size_t i = 0; i < sizeof(candidates); i++)
		if (!(named & BIT(candidates[i])))
			return candidates[i];
	return RV_ZERO;
}
