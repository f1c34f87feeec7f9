/*
 * riscv64: telling instructions apart by what they do with the program
 * counter, with and without the C extension.
 *
 * Pure; callers: the relocator, the tests.  Accepted are RV64IMAFDC, the
 * vector and the ratified bit-manipulation and cryptography extensions, which
 * share the major opcodes; vendors' own opcodes are refused.
 */
#ifndef ARCH_RISCV64_ISA_DECODE_H
#define ARCH_RISCV64_ISA_DECODE_H

#include "arch/generic/isa/instruction.h"

/* The length, or -ENODATA or -EILSEQ (see instruction.h). */
int rv_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);

#endif
