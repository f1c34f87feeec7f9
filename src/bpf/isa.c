/*
 * The list of valid instructions; see isa.h.  Pure.
 *
 * Two groups are left out: packet access of classic BPF, and calls of functions within the program.  Source: RFC 9669.
 */
#include <stddef.h>

#include "isa.h"

static const char *const unknown = "there is no such instruction";
static const char *const field = "a field is used that must be 0";

static const char *swap_fault(const struct bpf_insn *in)
{
	if (bpf_class(in) == BPF_ALU64 && bpf_has_register(in))
		return unknown;
	if (in->imm != 16 && in->imm != 32 && in->imm != 64)
		return "a byte swap has 16, 32 or 64 bits";
	return in->src_reg || in->off ? field : NULL;
}

static const char *move_fault(const struct bpf_insn *in)
{
	bool wide = bpf_class(in) == BPF_ALU64;

	if (!in->off)
		return NULL;
	return bpf_has_register(in) && (in->off == 8 || in->off == 16 || (wide && in->off == 32)) ? NULL : unknown;
}

static const char *alu_fault(const struct bpf_insn *in)
{
	uint8_t operation = bpf_operation(in);
	bool reg = bpf_has_register(in);

	if (operation > BPF_END)
		return unknown;
	if (operation == BPF_END)
		return swap_fault(in);
	if (operation == BPF_NEG)
		return reg || in->src_reg || in->off || in->imm ? field : NULL;
	if (reg ? in->imm : in->src_reg)
		return field;
	if (operation == BPF_MOV)
		return move_fault(in);
	if (operation == BPF_DIV || operation == BPF_MOD)
		return in->off & ~BPF_SIGNED ? field : NULL;
	return in->off ? field : NULL;
}

static const char *jump_fault(const struct bpf_insn *in)
{
	uint8_t operation = bpf_operation(in);

	switch (operation) {
	case BPF_JA:
		if (bpf_has_register(in))
			return unknown;
		if (in->dst_reg || in->src_reg || (bpf_class(in) == BPF_JMP ? in->imm : in->off))
			return field;
		return NULL;
	case BPF_CALL:
		if (in->code != (BPF_JMP | BPF_CALL))
			return unknown;
		return in->dst_reg || in->src_reg || in->off ? "only helpers can be called, by their number" : NULL;
	case BPF_EXIT:
		if (in->code != (BPF_JMP | BPF_EXIT))
			return unknown;
		return in->dst_reg || in->src_reg || in->off || in->imm ? field : NULL;
	default:
		if (operation > BPF_JSLE)
			return unknown;
		return (bpf_has_register(in) ? in->imm : in->src_reg) ? field : NULL;
	}
}

static const char *atomic_fault(const struct bpf_insn *in)
{
	if (bpf_access_size(in) < 4)
		return "an atomic operation has 32 or 64 bits";
	switch (in->imm) {
	case BPF_ADD:
	case BPF_OR:
	case BPF_AND:
	case BPF_XOR:
	case BPF_ADD | BPF_FETCH:
	case BPF_OR | BPF_FETCH:
	case BPF_AND | BPF_FETCH:
	case BPF_XOR | BPF_FETCH:
	case BPF_XCHG:
	case BPF_CMPXCHG:
		return NULL;
	default:
		return unknown;
	}
}

static const char *access_fault(const struct bpf_insn *in)
{
	switch (bpf_class(in)) {
	case BPF_LDX:
		if (bpf_mode(in) != BPF_MEM && (bpf_mode(in) != BPF_MEMSX || bpf_access_size(in) == 8))
			return unknown;
		return in->imm ? field : NULL;
	case BPF_ST:
		return bpf_mode(in) != BPF_MEM ? unknown : in->src_reg ? field : NULL;
	default:
		if (bpf_mode(in) == BPF_ATOMIC)
			return atomic_fault(in);
		return bpf_mode(in) != BPF_MEM ? unknown : in->imm ? field : NULL;
	}
}

static const char *wide_fault(const struct bpf_insn *in, uint32_t left)
{
	if (!bpf_is_wide(in))
		return unknown;
	if (left < 2)
		return "the second half of a 64-bit constant is missing";
	if (in[1].code || in[1].dst_reg || in[1].src_reg || in[1].off || in[0].off)
		return field;
	if (in->src_reg == BPF_PSEUDO_MAP_FD)
		return in[1].imm ? field : NULL;
	return in->src_reg ? unknown : NULL;
}

const char *bpf_insn_fault(const struct bpf_insn *in, uint32_t left)
{
	if (in->dst_reg >= BPF_REGISTERS || in->src_reg >= BPF_REGISTERS)
		return "there are registers r0 to r10";
	switch (bpf_class(in)) {
	case BPF_ALU:
	case BPF_ALU64:
		return alu_fault(in);
	case BPF_JMP:
	case BPF_JMP32:
		return jump_fault(in);
	case BPF_LD:
		return wide_fault(in, left);
	default:
		return access_fault(in);
	}
}
