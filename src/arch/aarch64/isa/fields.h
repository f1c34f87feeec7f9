/*
 * aarch64: the fields of an instruction's word.  Pure; callers: the decoders
 * beside this file.
 */
#ifndef ARCH_AARCH64_ISA_FIELDS_H
#define ARCH_AARCH64_ISA_FIELDS_H

#include "encode.h"

static inline unsigned a64_rd(uint32_t word)
{
	return isa_field(word, 0, 5);
}

static inline unsigned a64_rn(uint32_t word)
{
	return isa_field(word, 5, 5);
}

/* b, bl */
static inline int64_t a64_imm26(uint32_t word)
{
	return isa_signed(word, 26) * 4;
}

/* b.cond, cbz, cbnz, loads of a literal */
static inline int64_t a64_imm19(uint32_t word)
{
	return isa_signed(word >> 5, 19) * 4;
}

/* tbz, tbnz */
static inline int64_t a64_imm14(uint32_t word)
{
	return isa_signed(word >> 5, 14) * 4;
}

/* adr; in pages, adrp */
static inline int64_t a64_imm_adr(uint32_t word)
{
	return isa_signed(isa_field(word, 29, 2) | isa_field(word, 5, 19) << 2, 21);
}

static inline bool a64_is_adrp(uint32_t word)
{
	return (word & 0x9f000000) == 0x90000000;
}

static inline uint64_t a64_adrp_page(uint32_t word, uint64_t address)
{
	return (address & ~UINT64_C(0xfff)) + (uint64_t)a64_imm_adr(word) * 4096;
}

#endif
