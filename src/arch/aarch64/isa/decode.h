/*
 * aarch64: decoding instructions as far as they use the program counter.
 *
 * Pure; callers: the relocator, the tests.  Branches, exceptions and instructions that read the program counter are
 * decoded to the last bit; in the groups that only compute, load and store, any word passes as plain.  Groups that are
 * not allocated are refused, and so are instructions that sign with the program counter (FEAT_PAuth_LR).
 */
#ifndef ARCH_AARCH64_ISA_DECODE_H
#define ARCH_AARCH64_ISA_DECODE_H

#include "arch/generic/isa/instruction.h"

/* Decode an instruction; returns its length, 4, or -ENODATA or -EILSEQ (instruction.h). */
int a64_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);

#endif
