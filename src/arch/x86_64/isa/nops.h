/* x86-64: recognisers of its instructions (arch/generic/isa/recognise.h). */
#ifndef ARCH_X86_64_ISA_NOPS_H
#define ARCH_X86_64_ISA_NOPS_H

#include "arch/generic/isa/recognise.h"

/*
 * No-ops of any encoding that gcc, clang, and the assemblers emit; endbr64; push %r10, the static chain; the jump and
 * the no-ops that clang's -fxray-instrument begins a function with.
 */
isa_recognise x86_nop_length, x86_endbr64_length, x86_push_chain_length, x86_xray_length;

/*
 * x86_call: call rel32, or its 6-byte form with an address-size prefix.
 * x86_call_slot: call *disp32(%rip).
 */
isa_recognise_target x86_call, x86_call_slot;

/*
 * x86_jump_relative: jmp or a conditional jump, with a displacement of 8 or 32 bits. x86_jump_slot: [endbr64] [bnd] jmp
 * *disp32(%rip), as a PLT stub begins. x86_may_jump takes the byte behind endbr64 and the prefix.
 */
isa_recognise_target x86_jump_relative, x86_jump_slot;
isa_may_begin x86_may_jump;

/* [endbr64] [mov $index, %r11d] [bnd] jmp *disp32(%rip); the mov is how mold's entries name their relocation. */
isa_recognise_plt x86_plt_entry;

#endif
