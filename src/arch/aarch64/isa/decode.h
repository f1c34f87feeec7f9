/*
 * aarch64: telling instructions apart by what they do with the program
 * counter.
 *
 * Pure; callers: the relocator, the tests.  Branches, exceptions and what
 * reads the program counter are decoded to the last bit; in the groups that
 * only compute, load and store, any word passes as plain.  Groups that are not
 * allocated are refused, and so is what signs with the program counter
 * (FEAT_PAuth_LR).
 */
#ifndef ARCH_AARCH64_ISA_DECODE_H
#define ARCH_AARCH64_ISA_DECODE_H

#include "arch/generic/isa/instruction.h"

/* The length, 4, or -ENODATA or -EILSEQ (see instruction.h). */
int a64_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);

#endif
