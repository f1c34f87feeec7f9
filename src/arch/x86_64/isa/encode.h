/*
 * x86-64: encoders of the instructions that stubs and sites are made of, and
 * those that a relocated instruction needs.  Each appends one instruction;
 * targets are addresses, to be no further than a signed 32-bit displacement
 * (x86_reaches).
 *
 * Freestanding and pure; callers: the stubs' builder of the target, the
 * relocator.  Source: Intel SDM, volume 2.
 */
#ifndef ARCH_X86_64_ISA_ENCODE_H
#define ARCH_X86_64_ISA_ENCODE_H

#include "arch/generic/isa/instruction.h"

enum x86_opcode {
	X86_INT3 = 0xcc,
	X86_CS = 0x2e, /* a prefix without meaning in 64-bit mode */
	X86_CMP_AL = 0x3c,
	X86_CMP_EAX = 0x3d,
	X86_NOTRACK = 0x3e, /* the jump needs no endbr64 where it lands */
	X86_CALL = 0xe8,
	X86_JMP = 0xe9,
	X86_JMP_SHORT = 0xeb,
	X86_RET = 0xc3,
};

/* The low four bits of a conditional jump's opcode; the lowest inverts it. */
enum x86_condition {
	X86_B = 2,
	X86_AE = 3,
	X86_E = 4,
	X86_NE = 5,
};

/* The displacement from the end of an instruction, which lies tail bytes from here. */
static inline int64_t x86_displacement(const struct isa_out *out, size_t tail, uint64_t target)
{
	return (int64_t)(target - (isa_out_here(out) + tail));
}

/* Does a displacement of 32 bits reach the target from an instruction here, whose last byte is the length-th? */
static inline bool x86_reaches(const struct isa_out *out, size_t length, uint64_t target)
{
	return isa_fits(x86_displacement(out, length, target), 32);
}

/* The displacement that ends an instruction. */
static inline void x86_put_rel32(struct isa_out *out, uint64_t target)
{
	isa_put32(out, (uint32_t)x86_displacement(out, 4, target));
}

static inline void x86_put_jmp(struct isa_out *out, uint64_t target)
{
	isa_put8(out, X86_JMP);
	x86_put_rel32(out, target);
}

/* jmp with a displacement of 8 bits */
static inline void x86_put_jmp_short(struct isa_out *out, uint64_t target)
{
	isa_put8(out, X86_JMP_SHORT);
	isa_put8(out, (uint8_t)x86_displacement(out, 1, target));
}

static inline void x86_put_call(struct isa_out *out, uint64_t target)
{
	isa_put8(out, X86_CALL);
	x86_put_rel32(out, target);
}

static inline void x86_put_jcc(struct isa_out *out, unsigned condition, uint64_t target)
{
	isa_put8(out, 0x0f);
	isa_put8(out, (uint8_t)(0x80 | condition));
	x86_put_rel32(out, target);
}

/* call *slot(%rip) */
static inline void x86_put_call_slot(struct isa_out *out, uint64_t slot)
{
	isa_put16(out, 0x15ff);
	x86_put_rel32(out, slot);
}

/* jmp *slot(%rip) */
static inline void x86_put_jmp_slot(struct isa_out *out, uint64_t slot)
{
	isa_put16(out, 0x25ff);
	x86_put_rel32(out, slot);
}

/* push $imm32, which is extended by its sign */
static inline void x86_put_push(struct isa_out *out, uint32_t imm)
{
	isa_put8(out, 0x68);
	isa_put32(out, imm);
}

/* movl $imm32, offset(%rsp) */
static inline void x86_put_store_stack(struct isa_out *out, int8_t offset, uint32_t imm)
{
	isa_put32(out, 0x002444c7 | (uint32_t)(uint8_t)offset << 24);
	isa_put32(out, imm);
}

/* cmp %fs:offset, %rsp */
static inline void x86_put_cmp_fs_sp(struct isa_out *out, int32_t offset)
{
	isa_put32(out, 0x243b4864);
	isa_put8(out, 0x25);
	isa_put32(out, (uint32_t)offset);
}

#endif
