/* riscv64: recognisers of its instructions (arch/generic/isa/recognise.h). */
#ifndef ARCH_RISCV64_ISA_NOPS_H
#define ARCH_RISCV64_ISA_NOPS_H

#include "arch/generic/isa/recognise.h"

/*
 * No-ops: nop and c.nop; other hints may mean something to a CPU.  The landing
 * pad: lpad (Zicfilp), which is auipc to the zero register.
 */
isa_recognise rv_nop_length, rv_landing_pad_length;

/*
 * rv_call: jal ra, or auipc and jalr ra.  rv_call_slot: auipc, ld and jalr ra
 * or c.jalr, as -fno-plt makes it; other instructions may stand before the jump.
 */
isa_recognise_target rv_call, rv_call_slot;

/*
 * rv_jump_relative: j, a branch, their 16-bit forms, or a tail call by auipc
 * and jr.  rv_jump_slot: [lpad] auipc, ld and a jump to what was loaded: a PLT
 * entry, or a tail call by -fno-plt, where other instructions may stand before
 * the jump.
 */
isa_recognise_target rv_jump_relative, rv_jump_slot;
isa_may_begin rv_may_jump;

/* [lpad] auipc t3, ld t3 and jalr t1, as linkers make PLT entries; the jump replaces the auipc and the ld. */
isa_recognise_plt rv_plt_entry;

#endif
