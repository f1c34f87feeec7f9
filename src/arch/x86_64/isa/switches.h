/*
 * x86-64: code that changes to another stack and keeps the address that it is
 * to return to apart from its stack.
 *
 * Pure; caller: the host's reader of ELF files (host/elf/tails.c).
 */
#ifndef ARCH_X86_64_ISA_SWITCHES_H
#define ARCH_X86_64_ISA_SWITCHES_H

#include "arch/generic/isa/recognise.h"

/*
 * True if a function that begins with this code reads its return address, and loads the stack pointer from elsewhere.
 */
isa_is_such x86_switches_stacks;
/* Quick test: false if no such function can be in this code, wherever it begins. */
isa_is_such x86_may_switch_stacks;

#endif
