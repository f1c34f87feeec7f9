/*
 * x86-64: switches of stacks (switches.h).  Pure.
 *
 * All such functions that were looked at (glibc's swapcontext, libaco, libco, and programs' own) have a `mov (%rsp),
 * %reg` or a pop at the start, and further on a load of rsp that is neither from a frame pointer nor from memory at
 * rsp or rbp, as compilers make for arrays of variable size.
 */
#include <string.h>

#include "decode.h"
#include "layout.h"
#include "switches.h"

#define INSTRUCTIONS_MAX 96  /* instructions of a function that are looked at */
#define NEAR		 256 /* bytes between the two marks */

enum { RSP = 4, RBP = 5 };

struct operands {
	unsigned reg;	     /* ModRM's middle field, with REX.R */
	unsigned base;	     /* the register, or the address' base; 16 = none */
	bool memory, direct; /* direct: neither index nor displacement */
};

static struct operands operands_of(const struct x86_layout *in, const uint8_t *code)
{
	unsigned mod = in->modrm >> 6, rm = in->modrm & 7, sib;
	struct operands found = {
		.reg = x86_reg_field(in) | (in->rex & 4) << 1,
		.memory = mod != 3,
		.base = rm | (in->rex & 1u) << 3,
	};

	if (!found.memory)
		return found;
	found.direct = mod == 0;
	if (rm == 4) {
		sib = code[in->modrm_at + 1];
		found.base = (sib & 7) | (in->rex & 1u) << 3;
		found.direct = mod == 0 && (sib & 7) != 5 && (sib >> 3 & 7) == 4 && !(in->rex & 2);
		if (mod == 0 && (sib & 7) == 5)
			found.base = 16;
	} else if (mod == 0 && rm == 5) {
		found.base = 16;
	}
	return found;
}

static bool is_move(const struct x86_layout *in)
{
	return !in->vector && in->map == X86_MAP_ONE && in->has_modrm && in->rex & 8 &&
	       (in->opcode == 0x8b || in->opcode == 0x89 || in->opcode == 0x87);
}

static bool reads_return(const struct x86_layout *in, const uint8_t *code, bool first)
{
	struct operands operands;

	if (!in->vector && in->map == X86_MAP_ONE &&
	    (in->opcode & 0xf8) == 0x58) /* pop: the return address, at first */
		return first;
	if (!is_move(in) || in->opcode != 0x8b)
		return false;
	operands = operands_of(in, code);
	return operands.memory && operands.base == RSP && operands.direct && operands.reg != RSP;
}

static bool loads_stack(const struct x86_layout *in, const uint8_t *code)
{
	struct operands operands;
	unsigned from;

	if (!is_move(in))
		return false;
	operands = operands_of(in, code);
	if (operands.memory)
		return in->opcode != 0x89 && operands.reg == RSP && operands.base != RSP && operands.base != RBP;
	from = in->opcode == 0x89 ? operands.reg : operands.base;
	if (in->opcode == 0x87)
		return operands.reg == RSP || operands.base == RSP;
	return (in->opcode == 0x89 ? operands.base : operands.reg) == RSP && from != RBP && from != RSP;
}

bool x86_switches_stacks(const uint8_t *code, size_t size)
{
	bool reads = false, loads = false, first = true;

	for (unsigned i = 0; i < INSTRUCTIONS_MAX && !(reads && loads); i++) {
		struct isa_instruction in;
		struct x86_layout layout;

		if (x86_parse(&layout, code, size) < 0 || x86_decode(&in, code, size, 0) < 0 || in.kind == ISA_RETURN ||
		    in.kind == ISA_JUMP || in.kind == ISA_JUMP_INDIRECT || in.kind == ISA_TRAP)
			break;
		reads |= reads_return(&layout, code, first);
		loads |= loads_stack(&layout, code);
		first = false;
		code += layout.length;
		size -= layout.length;
	}
	return reads && loads;
}

/* True if the code has a mov (%rsp), %reg.  Pops are not looked for: too many functions end with one. */
static bool has_read(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i + 3 < size; i++)
		if ((code[i] & 0xfb) == 0x48 && code[i + 1] == 0x8b && (code[i + 2] & 0xc7) == 0x04 &&
		    code[i + 3] == 0x24)
			return true;
	return false;
}

/* A load of rsp from memory or another register, or an exchange, by its first three bytes. */
static bool may_load(const uint8_t *code)
{
	bool takes = (code[2] & 0x38) == 0x20, gives = (code[2] & 0xc7) == 0xc4;

	if ((code[0] & 0xfa) != 0x48)
		return false;
	return (code[1] == 0x8b && takes) || (code[1] == 0x89 && gives) || (code[1] == 0x87 && (takes || gives));
}

bool x86_may_switch_stacks(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i + 2 < size; i++) {
		size_t before = i < NEAR ? i : NEAR, after = size - i < NEAR ? size - i : NEAR;

		if (may_load(code + i) && has_read(code + i - before, before + after))
			return true;
	}
	return false;
}
