/*
 * x86-64: telling instructions apart by what they do with the instruction
 * pointer, in 64-bit mode.
 *
 * Pure; callers: the relocator, the tests.
 */
#ifndef ARCH_X86_64_ISA_DECODE_H
#define ARCH_X86_64_ISA_DECODE_H

#include "arch/generic/isa/instruction.h"

/* The length, or -ENODATA or -EILSEQ (see instruction.h; what is known: layout.h). */
int x86_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);

#endif
