/*
 * x86-64: moving an instruction to another address (what that means:
 * arch/generic/isa/relocate.h).  No register is ever needed for it.
 *
 * Pure; the base of blocks, and of probes at any instruction.
 */
#ifndef ARCH_X86_64_ISA_RELOCATE_H
#define ARCH_X86_64_ISA_RELOCATE_H

#include "arch/generic/isa/relocate.h"

/* Jumps, calls and lea reach any distance; other memory must be within 2 GiB of the new place. */
int x86_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from);

#endif
