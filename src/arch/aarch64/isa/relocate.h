/*
 * aarch64: moving an instruction to another address (what that means:
 * arch/generic/isa/relocate.h).
 *
 * Pure; the base of probes at any instruction, called by the tests today.
 *
 * The new place must not be mapped with PROT_BTI: a call through a register
 * becomes a jump through it, which an unguarded page may make to any landing
 * pad.  Jumps that are made to reach further are a ret, which needs none.
 */
#ifndef ARCH_AARCH64_ISA_RELOCATE_H
#define ARCH_AARCH64_ISA_RELOCATE_H

#include "arch/generic/isa/relocate.h"

/*
 * scratch: a register that the sequence may change and the instruction does
 * not name; A64_XZR = none.  Needed where the target is out of the reach that
 * it has from the new place: 128 MiB for jumps, branches and calls, 1 MiB for
 * loads of a literal into a vector register; and by a call through x30.
 */
int a64_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, unsigned scratch);

#endif
