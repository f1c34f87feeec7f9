/*
 * x86-64: where the parts of an instruction lie: prefixes, opcode, operand,
 * displacement and immediate, in 64-bit mode.
 *
 * Pure; callers: the decoders beside this file, the relocator.  Known are the
 * one-byte opcodes, those behind 0f, 0f 38 and 0f 3a, and the VEX, EVEX and XOP
 * encodings; what no CPU defines is refused, and so are APX and prefixes whose
 * effect depends on the CPU's make (an operand size before a jump).  Source:
 * Intel SDM volume 2, chapter 2 and appendix A; AMD APM volume 3, appendix A.
 */
#ifndef ARCH_X86_64_ISA_LAYOUT_H
#define ARCH_X86_64_ISA_LAYOUT_H

#include "arch/generic/isa/bits.h"

#define X86_LENGTH_MAX 15

/* The space that an opcode byte belongs to, with the numbers of VEX and EVEX; XOP's begin at 8. */
enum x86_map {
	X86_MAP_ONE,
	X86_MAP_0F,
	X86_MAP_0F38,
	X86_MAP_0F3A,
};

/* Places are offsets from the instruction's first byte; sizes are in bytes, 0 = there is none. */
struct x86_layout {
	uint8_t length;
	uint8_t prefixes; /* how many legacy ones, which come first */
	uint8_t rex;	  /* the prefix itself */
	uint8_t map;
	uint8_t opcode;
	uint8_t opcode_at;
	uint8_t modrm;
	uint8_t modrm_at;
	uint8_t displacement_at;
	uint8_t displacement_size;
	uint8_t immediate_size; /* at the end; a jump's offset, too */
	bool has_modrm;
	bool data16;  /* 66 */
	bool addr32;  /* 67 */
	bool repne;   /* f2 */
	bool rep;     /* f3 */
	bool lock;    /* f0 */
	bool vector;  /* VEX, EVEX or XOP */
	bool pc_base; /* the displacement is from the instruction's end */
};

/* The length, or -ENODATA or -EILSEQ (see arch/generic/isa/instruction.h). */
int x86_parse(struct x86_layout *layout, const uint8_t *code, size_t size);

/* The middle field of ModRM: a register, or more of the opcode. */
static inline unsigned x86_reg_field(const struct x86_layout *layout)
{
	return isa_field(layout->modrm, 3, 3);
}

/* ModRM names a register, no memory. */
static inline bool x86_is_register(const struct x86_layout *layout)
{
	return layout->modrm >= 0xc0;
}

/* 16-bit operands: a prefix that REX.W does not overrule. */
static inline bool x86_is_data16(const struct x86_layout *layout)
{
	return layout->data16 && !(layout->rex & 8);
}

#endif
