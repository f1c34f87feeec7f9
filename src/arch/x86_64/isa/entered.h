/*
 * x86-64: functions that a signal's handler enters without a call, by writing their address into the program counter of
 * its context.
 *
 * Pure; caller: the host's reader of ELF files (host/elf/entered.c).
 */
#ifndef ARCH_X86_64_ISA_ENTERED_H
#define ARCH_X86_64_ISA_ENTERED_H

#include "arch/generic/isa/recognise.h"

/* The code stores a function's address, *target, where a ucontext_t has its program counter. */
isa_find_target x86_find_entered;
/* True if all of a function's code has been read, and nothing in it returns or jumps out of it. */
isa_is_such x86_never_returns;

#endif
