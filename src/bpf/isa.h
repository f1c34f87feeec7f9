/*
 * The eBPF instruction set (RFC 9669): constants that the kernel's header lacks, and functions that read the fields of
 * an instruction.
 *
 * Callers: this room.  Context: host.
 */
#ifndef BPF_ISA_H
#define BPF_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/bpf.h>

#ifndef BPF_MEMSX
#define BPF_MEMSX 0x80 /* a load that extends the sign */
#endif

#define BPF_REGISTERS  11u
#define BPF_FRAME      BPF_REG_10 /* the frame pointer, which is read only */
#define BPF_STACK_SIZE 512u
#define BPF_COUNT_MAX  4096u /* the most instructions that a program may have */
#define BPF_ARGUMENTS  5u    /* a call has so many, in registers 1 to 5 */

/* The offset field of a division or a remainder of signed numbers. */
#define BPF_SIGNED 1

static inline uint8_t bpf_class(const struct bpf_insn *in)
{
	return in->code & 0x07;
}

static inline uint8_t bpf_operation(const struct bpf_insn *in)
{
	return in->code & 0xf0;
}

static inline uint8_t bpf_mode(const struct bpf_insn *in)
{
	return in->code & 0xe0;
}

static inline bool bpf_has_register(const struct bpf_insn *in)
{
	return in->code & BPF_X;
}

/* True for the first half of an instruction that loads 64 bits. */
static inline bool bpf_is_wide(const struct bpf_insn *in)
{
	return in->code == (BPF_LD | BPF_IMM | BPF_DW);
}

/* The number of bytes that a load or store moves. */
static inline unsigned bpf_access_size(const struct bpf_insn *in)
{
	switch (in->code & 0x18) {
	case BPF_B:
		return 1;
	case BPF_H:
		return 2;
	case BPF_W:
		return 4;
	default:
		return 8;
	}
}

static inline bool bpf_is_jump_class(const struct bpf_insn *in)
{
	return bpf_class(in) == BPF_JMP || bpf_class(in) == BPF_JMP32;
}

/* True for jumps with or without a condition, false for call and exit. */
static inline bool bpf_is_jump(const struct bpf_insn *in)
{
	return bpf_is_jump_class(in) && bpf_operation(in) != BPF_CALL && bpf_operation(in) != BPF_EXIT;
}

static inline bool bpf_is_exit(const struct bpf_insn *in)
{
	return in->code == (BPF_JMP | BPF_EXIT);
}

/* A jump's distance from the next instruction to its target, in instructions. */
static inline int32_t bpf_jump_distance(const struct bpf_insn *in)
{
	return in->code == (BPF_JMP32 | BPF_JA) ? in->imm : in->off;
}

static inline uint64_t bpf_wide_value(const struct bpf_insn *in)
{
	return (uint32_t)in[0].imm | (uint64_t)(uint32_t)in[1].imm << 32;
}

/*
 * The reason why an instruction is not valid, or NULL: the instruction set does not have it, or it uses a field that
 * must be 0.  `left` counts the instructions from this one on.
 */
const char *bpf_insn_fault(const struct bpf_insn *in, uint32_t left);

/* interpret.c: the result of an arithmetic instruction; one with a single operand ignores `right`. */
uint64_t bpf_alu(const struct bpf_insn *in, uint64_t left, uint64_t right);
/* interpret.c: true if a conditional jump jumps. */
bool bpf_compare(const struct bpf_insn *in, uint64_t left, uint64_t right);

#endif
