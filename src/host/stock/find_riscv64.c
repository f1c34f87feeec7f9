/*
 * RISC-V 64: what the analysis of stock functions must know of its instructions (find_cpu.h).  Pure; context: host.
 *
 * An address is made by two instructions: auipc, and one that adds the rest to its register, which may be a jump or a
 * load.  So the values of registers are followed from instruction to instruction (follow()).
 */
#include <elf.h>

#include "arch/riscv64/isa/block.h"
#include "arch/riscv64/isa/decode.h"
#include "arch/riscv64/isa/fields.h"
#include "arch/riscv64/isa/nops.h"
#include "arch/riscv64/isa/registers.h"
#include "find_cpu.h"

#define HEAD_MAX   14  /* one instruction of 4 bytes begins in the last two of a jump with an island */
#define ENTRY_MAX  256 /* instructions of a function's first path that are looked at */
#define C_MV_T0_RA 0x8286
#define BIT(reg)   (1u << (reg))

/* What a head's jump, sites, stubs and recorders change. */
#define CHANGED (BIT(RV_T0) | BIT(RV_T1) | BIT(RV_T3) | BIT(RV_T4) | BIT(RV_T5) | BIT(RV_T6))

static size_t padding(const uint8_t *code, size_t size)
{
	return size >= 2 && !isa_load16(code) ? 2 : rv_nop_length(code, size);
}

static uint32_t word_of(const uint8_t *code, size_t length)
{
	return length == 4 ? isa_load32(code) : isa_load16(code);
}

static bool is_jump(const struct isa_instruction *in)
{
	return in->kind == ISA_JUMP_INDIRECT || in->kind == ISA_CALL_INDIRECT || in->kind == ISA_RETURN;
}

/* A jump by a register whose value is known leads there; by one that was loaded, through memory. */
static void follow_jump(const struct find_values *values, struct isa_instruction *in, uint32_t word)
{
	unsigned base = in->length == 4 ? rv_rs1(word) : rv_rd(word);
	int64_t offset = in->length == 4 ? rv_imm_i(word) : 0;

	if (values->known & BIT(base)) {
		in->kind = in->kind == ISA_CALL_INDIRECT ? ISA_CALL : ISA_JUMP;
		in->target = (values->value[base] + (uint64_t)offset) & ~UINT64_C(1);
		in->has_target = true;
	} else if (in->kind == ISA_JUMP_INDIRECT && !offset && values->loaded & BIT(base)) {
		in->target = values->value[base];
		in->has_target = true;
	}
}

/* What an instruction leaves in its register: a known value, the place it was loaded from, or nothing that is known. */
static void follow_value(struct find_values *values, struct isa_instruction *in, uint32_t word, uint32_t writes)
{
	unsigned rd = rv_rd(word), rs1 = rv_rs1(word);
	uint32_t known = values->known;
	uint64_t value = values->value[rs1];

	values->known &= ~writes;
	values->loaded &= ~writes;
	if (in->length != 4 || !(writes & BIT(rd)))
		return;
	if (in->kind == ISA_ADDRESS || (rv_opcode(word) == RV_LUI && values->fixed)) {
		values->value[rd] = in->kind == ISA_ADDRESS ? in->target : (uint64_t)rv_imm_u(word);
		values->known |= BIT(rd);
	} else if (rv_opcode(word) == RV_OP_IMM && !rv_funct3(word) && known & BIT(rs1)) {
		in->kind = ISA_ADDRESS;
		in->target = values->value[rd] = value + (uint64_t)rv_imm_i(word);
		in->has_target = true;
		values->known |= BIT(rd);
		return;
	} else if (rv_opcode(word) == RV_LOAD && rv_funct3(word) == 3 && known & BIT(rs1)) {
		values->value[rd] = value + (uint64_t)rv_imm_i(word);
		values->loaded |= BIT(rd);
	}
	if (in->kind == ISA_ADDRESS) { /* half an address */
		in->kind = ISA_PLAIN;
		in->has_target = false;
	}
}

/* mv t0, ra */
static bool moves_link(const uint8_t *code, size_t length)
{
	return length == 4 ? isa_load32(code) == rv_mv(RV_T0, RV_RA) : isa_load16(code) == C_MV_T0_RA;
}

/*
 * True if the instruction uses what it finds in ra for more than to save it by the stack pointer, to return there, or
 * to return there by t0 (glibc's way from a system call's error).  A call by ra itself finds the first half of an
 * address in it.
 */
static bool uses_link(const struct isa_instruction *in, const uint8_t *code, uint32_t reads, uint32_t writes)
{
	struct rv_access access;

	if (!(reads & BIT(RV_RA)) || in->kind == ISA_RETURN || in->kind == ISA_JUMP_INDIRECT ||
	    moves_link(code, in->length))
		return false;
	if (in->kind == ISA_CALL_INDIRECT)
		return !(writes & BIT(RV_RA));
	return !rv_access(&access, code, in->length) || !access.stores || access.base != RV_SP || access.moved != RV_RA;
}

static unsigned follow(struct find_values *values, struct isa_instruction *in, const uint8_t *code)
{
	struct rv_registers registers = rv_registers(code, in->length);
	uint32_t word = word_of(code, in->length);
	unsigned found = 0;

	if (!values->link_lost && uses_link(in, code, registers.reads, registers.writes))
		found |= FIND_USES_LINK;
	if (values->link_moved && registers.reads & BIT(RV_T0) && !is_jump(in))
		found |= FIND_USES_LINK;
	if (registers.writes & BIT(RV_T0))
		values->link_moved = !values->link_lost && moves_link(code, in->length);
	if (registers.writes & BIT(RV_RA))
		values->link_lost = true;
	if (is_jump(in))
		follow_jump(values, in, word);
	if (in->kind == ISA_CALL && !(registers.writes & BIT(RV_RA)))
		found |= FIND_OTHER_LINK;
	follow_value(values, in, word, registers.writes);
	return found;
}

/*
 * While the return address is in ra: is it used; while it is in memory: does another register than ra get it, or lose
 * its value to it?
 */
static bool touches(const uint8_t *code, size_t length, const struct cfi_row *row)
{
	struct rv_registers registers = rv_registers(code, length);
	struct isa_instruction in;
	struct rv_access access;
	int64_t from_first;

	if (!row->return_moved)
		return rv_decode(&in, code, length, 0) > 0 && uses_link(&in, code, registers.reads, registers.writes);
	/* In its caller's frame: the loader's resolver is jumped to, with the return address on the stack. */
	if (row->return_offset >= 0)
		return row->return_offset > 0;
	if ((row->cfa_register != RV_SP && row->cfa_register != RV_S0) || !rv_access(&access, code, length) ||
	    access.base != row->cfa_register || access.moved == RV_RA)
		return false;
	from_first = row->cfa_offset + row->return_offset - access.offset;
	return from_first >= 0 && from_first < (int64_t)access.bytes;
}

static bool immediate(const uint8_t *code, size_t length, uint64_t *value)
{
	(void)code;
	(void)length;
	(void)value;
	return false;
}

/*
 * True if a temporary that stubs change is read on a function's first path before it is written: then its caller has
 * put something there.  So do the loader's resolver (t0, t1), the functions of TLS descriptors, which return by t0, and
 * clang's preserve_most.
 */
static bool takes_more(const uint8_t *code, size_t size, uint64_t address)
{
	uint32_t written = 0;
	size_t at = 0;

	for (unsigned n = 0; n < ENTRY_MAX && at < size; n++) {
		struct rv_registers registers;
		struct isa_instruction in;

		if (rv_decode(&in, code + at, size - at, address + at) < 0)
			return false;
		registers = rv_registers(code + at, in.length);
		if (registers.reads & CHANGED & ~written)
			return true;
		written |= registers.writes;
		if (in.kind == ISA_JUMP && in.target - address < size)
			at = in.target - address;
		else if (isa_goes_on((enum isa_kind)in.kind) || in.kind == ISA_BRANCH)
			at += in.length;
		else
			return false;
	}
	return false;
}

const struct find_cpu find_riscv64 = {
	.machine = EM_RISCV,
	.block = &rv_block_cpu,
	.head_max = HEAD_MAX,
	.code_align = 2,
	.stack_register = RV_SP,
	.entry_cfa = 0,
	.return_register = RV_RA,
	.link = true,
	.keeps_pad = true,
	.needs_proof = true,
	.landing_pad = rv_landing_pad_length,
	.padding = padding,
	.jump_slot = rv_jump_slot,
	.follow = follow,
	.touches = touches,
	.immediate = immediate,
	.takes_more = takes_more,
};
