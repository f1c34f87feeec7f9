/*
 * riscv64: moving an instruction to another address (what that means:
 * arch/generic/isa/relocate.h).
 *
 * Pure; the base of probes at any instruction, called by the tests today.
 */
#ifndef ARCH_RISCV64_ISA_RELOCATE_H
#define ARCH_RISCV64_ISA_RELOCATE_H

#include "arch/generic/isa/relocate.h"

/*
 * scratch: a register that the sequence may change and the instruction does
 * not name; RV_ZERO = none.  Needed by jumps, branches, and calls to a target
 * that a jal (1 MiB) does not reach from the new place, and by a call through
 * the register that it links to, as the pair of auipc and jalr ends.
 */
int rv_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, unsigned scratch);

#endif
