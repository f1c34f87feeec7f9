/*
 * x86-64: recognising what compilers put at a function's entry: no-ops, the
 * landing pad, calls of a profiling hook, and the PLT stub behind such a call;
 * and the jumps that may end a function.
 *
 * Pure functions on bytes, built on every host.  Callers: the host's reader of
 * ELF files.  Each returns the instruction's length in bytes, 0 when the bytes
 * (never read past size) are not that instruction.
 */
#ifndef ARCH_X86_64_ISA_NOPS_H
#define ARCH_X86_64_ISA_NOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One no-op of any encoding that gcc, clang, and the assemblers emit. */
size_t x86_nop_length(const uint8_t *code, size_t size);

/* endbr64 */
size_t x86_endbr64_length(const uint8_t *code, size_t size);

/* call rel32, or its 6-byte form with an address-size prefix; code lies at address. */
size_t x86_call_rel32(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);

/* call *disp32(%rip); slot is the address of the pointer. */
size_t x86_call_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot);

/* Can a jump of the two functions below begin with this byte (landing pad and prefix left out)? */
bool x86_may_jump(uint8_t first);

/* jmp or a conditional jump, with a displacement of 8 or 32 bits. */
size_t x86_jump_relative(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);

/* [endbr64] [bnd] jmp *disp32(%rip), as a PLT stub begins. */
size_t x86_jump_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot);

#endif
