/*
 * x86-64: what the analysis of stock functions must know of its instructions (find_cpu.h).  Pure; context: host.
 */
#include <elf.h>

#include "arch/x86_64/isa/block.h"
#include "arch/x86_64/isa/layout.h"
#include "arch/x86_64/isa/nops.h"
#include "find_cpu.h"

#define RBP	6 /* DWARF numbers */
#define RSP	7
#define RETURN	16
#define WORD	8
#define INT3	0xcc
#define RET_N	0xc2
#define FACTORS 0x3f /* SIB: index and base */
#define RSP_SIB 0x24 /* base rsp, no index */

static size_t padding(const uint8_t *code, size_t size)
{
	if (size && (*code == INT3 || !*code))
		return 1;
	return x86_nop_length(code, size);
}

/*
 * What must stay as it is at a function's start: a landing pad, and the bytes that XRay's runtime replaces by a call
 * and takes back, while threads run through them.
 */
static size_t lead(const uint8_t *code, size_t size)
{
	size_t pad = x86_endbr64_length(code, size);

	return pad + x86_xray_length(code + pad, size - pad);
}

/* True if no instruction of these bytes can reach the slot that lies `offset` bytes behind the CFA's register. */
static bool is_elsewhere(const uint8_t *code, size_t length, const struct cfi_row *row, int64_t offset)
{
	for (size_t i = 1; i < length; i++)
		if (row->cfa_register == RSP ? (code[i] & FACTORS) == RSP_SIB : code[i] == (uint8_t)offset)
			return false;
	return true;
}

/* True if the operand is in memory, and begins in the word that lies `offset` bytes behind the register. */
static bool is_at(const struct x86_layout *layout, const uint8_t *code, uint8_t reg, int64_t offset)
{
	const uint8_t *at = code + layout->displacement_at;
	int64_t displacement = layout->displacement_size == 4	? isa_signed(isa_load32(at), 32)
			       : layout->displacement_size == 1 ? isa_signed(*at, 8)
								: 0;
	bool is_base;

	if (!layout->has_modrm || x86_is_register(layout) || layout->pc_base || layout->rex & 1)
		return false;
	if (reg == RSP)
		is_base = (layout->modrm & 7) == 4 && (code[layout->modrm_at + 1] & FACTORS) == RSP_SIB &&
			  !(layout->rex & 2);
	else
		is_base = (layout->modrm & 7) == 5 && layout->modrm >= 0x40;
	return is_base && displacement >= offset && displacement < offset + WORD;
}

/* True if the instruction's operand is an address only, or only a hint. */
static bool is_address_only(const struct x86_layout *layout)
{
	if (layout->vector)
		return false;
	return (layout->map == X86_MAP_ONE && layout->opcode == 0x8d) ||
	       (layout->map == X86_MAP_0F &&
		(layout->opcode == 0x0d || layout->opcode == 0x18 || layout->opcode == 0x1f || layout->opcode == 0x1e));
}

static bool touches(const uint8_t *code, size_t length, const struct cfi_row *row)
{
	struct x86_layout layout;
	int64_t offset = row->cfa_offset - WORD;
	bool pops, maybe;

	if (row->cfa_register != RSP && row->cfa_register != RBP)
		return false;
	pops = row->cfa_register == RSP && !offset; /* the next word to be popped is the slot */
	maybe = !is_elsewhere(code, length, row, offset);
	if ((!pops && !maybe) || x86_parse(&layout, code, length) < 0)
		return false;
	if (pops && !layout.vector && layout.map == X86_MAP_ONE &&
	    ((layout.opcode & 0xf8) == 0x58 || layout.opcode == 0x8f))
		return true;
	return maybe && !is_address_only(&layout) && is_at(&layout, code, row->cfa_register, offset);
}

/* ret $n: behind it a stub would not find its frame where it was.  Some of LLVM's calling conventions end so. */
static bool takes_arguments(const uint8_t *code, size_t length)
{
	return length >= 3 && code[length - 3] == RET_N && (length == 3 || (length == 4 && code[0] >= 0xf2));
}

static bool moves_stack(const uint8_t *code, size_t length)
{
	struct x86_layout layout;
	uint8_t opcode;

	if (x86_parse(&layout, code, length) < 0)
		return true;
	opcode = layout.opcode;
	if (layout.vector)
		return false;
	if (layout.map == X86_MAP_ONE && ((opcode & 0xf0) == 0x50 || opcode == 0x68 || opcode == 0x6a ||
					  opcode == 0x8f || opcode == 0xc8 || opcode == 0xc9 || opcode == 0xff))
		return true; /* push, pop, enter, leave; call */
	return layout.has_modrm && ((x86_reg_field(&layout) == 4 && !(layout.rex & 4)) ||
				    (x86_is_register(&layout) && (layout.modrm & 7) == 4 && !(layout.rex & 1)));
}

static bool immediate(const uint8_t *code, size_t length, uint64_t *value)
{
	struct x86_layout layout;

	if (length < 5 || x86_parse(&layout, code, length) < 0 || layout.vector || layout.immediate_size < 4)
		return false;
	*value = layout.immediate_size == 8
			 ? isa_load32(code + length - 8) | (uint64_t)isa_load32(code + length - 4) << 32
			 : isa_load32(code + length - 4);
	return true;
}

const struct find_cpu find_x86_64 = {
	.machine = EM_X86_64,
	.block = &x86_block_cpu,
	.head_max = 15,
	.code_align = 1,
	.stack_register = RSP,
	.entry_cfa = WORD,
	.return_register = RETURN,
	.landing_pad = lead,
	.padding = padding,
	.jump_slot = x86_jump_slot,
	.touches = touches,
	.takes_arguments = takes_arguments,
	.moves_stack = moves_stack,
	.immediate = immediate,
};
