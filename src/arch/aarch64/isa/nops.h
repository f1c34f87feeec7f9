/* aarch64: recognisers of its instructions (arch/generic/isa/recognise.h). */
#ifndef ARCH_AARCH64_ISA_NOPS_H
#define ARCH_AARCH64_ISA_NOPS_H

#include "arch/generic/isa/recognise.h"

/*
 * The no-op: nop; other hints mean something to a CPU (paciasp signs the return
 * address).  Landing pads: bti, with any set of targets; paciasp is one too,
 * but does more.
 */
isa_recognise a64_nop_length, a64_landing_pad_length;

/* paciasp, pacibsp: they sign the return address, and are landing pads. */
isa_is_such a64_signs_return;

/*
 * a64_call: bl.  a64_call_slot: adrp, ldr and blr, as -fno-plt makes it; other
 * instructions may stand before the blr.
 */
isa_recognise_target a64_call, a64_call_slot;

/*
 * a64_jump_relative: b, b.cond, cbz, cbnz, tbz, tbnz, or a linker's veneer:
 * adrp, add and br.  a64_jump_slot: [bti] adrp, ldr and br to what was loaded: a
 * PLT entry, which also makes the slot's address and may check the pointer's
 * signature, or a tail call by -fno-plt, where other instructions may stand
 * before the br.  The lowest byte tells nothing of them.
 */
isa_recognise_target a64_jump_relative, a64_jump_slot;
isa_may_begin a64_may_jump;

/* [bti] adrp x16, ldr x17, add x16 and br x17, as linkers make PLT entries; the jump replaces the adrp. */
isa_recognise_plt a64_plt_entry;

#endif
