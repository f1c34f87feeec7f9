/*
 * The part that the compilers of all CPUs share: the kinds of instructions, the places of each instruction's code, and
 * the passes over a program.
 *
 * The first pass finds where the code of each instruction begins, the last one writes jumps with the right distances.
 * A CPU whose conditional branches do not lead through a whole program has a pass in between: the first pass takes the
 * long form of all branches, the others take the short one where the first pass's distances allow it.  Code gets only
 * shorter by that, so a distance that was short enough stays so.
 *
 * Callers: the compilers, compile.c.  Context: host.
 */
#ifndef BPF_COMPILE_IMPL_H
#define BPF_COMPILE_IMPL_H

#include "arch/generic/isa/instruction.h"

#include "compile.h"
#include "isa.h"

struct bpf_writer {
	struct isa_out out;
	const struct bpf_compile *job;
	uint32_t starts[BPF_COUNT_MAX + 1]; /* by instruction: where its code begins */
	uint32_t at;			    /* the instruction */
	uint16_t used;			    /* a bit for each register that an instruction names */
	bool is_near[BPF_COUNT_MAX];	    /* by instruction: a jump whose short form reaches its target */
};

struct bpf_cpu {
	void (*put_begin)(struct bpf_writer *writer);
	void (*put_end)(struct bpf_writer *writer);
	/* Write the code of the instruction at writer->at, one function for each kind. */
	void (*put_alu)(struct bpf_writer *writer, const struct bpf_insn *in);
	void (*put_wide)(struct bpf_writer *writer, const struct bpf_insn *in); /* bpf_constant() into a register */
	void (*put_load)(struct bpf_writer *writer, const struct bpf_insn *in);
	void (*put_store)(struct bpf_writer *writer, const struct bpf_insn *in, bool is_constant);
	void (*put_atomic)(struct bpf_writer *writer, const struct bpf_insn *in);
	void (*put_jump)(struct bpf_writer *writer, const struct bpf_insn *in);
	void (*put_call)(struct bpf_writer *writer, const struct bpf_insn *in);
	int64_t branch_reach; /* bytes that a conditional branch reaches both ways; 0: there is one form of branches */
};

/* compile.c: write the code of a program, as compile.h promises it for bpf_compile_CPU(). */
int bpf_write(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job, const struct bpf_cpu *cpu)
	__attribute__((warn_unused_result));

/* True if an instruction of the program names the register. */
static inline bool bpf_uses(const struct bpf_writer *writer, unsigned reg)
{
	return writer->used >> reg & 1;
}

/* The place in the code that the jump at writer->at leads to. */
static inline uint32_t bpf_jump_target(const struct bpf_writer *writer, const struct bpf_insn *in)
{
	return writer->starts[(int64_t)writer->at + 1 + bpf_jump_distance(in)];
}

/* The distance from the next byte of code to that place. */
static inline int64_t bpf_jump_offset(const struct bpf_writer *writer, const struct bpf_insn *in)
{
	return (int64_t)bpf_jump_target(writer, in) - (int64_t)writer->out.length;
}

/* The number that a load of a 64-bit constant, or of a map, gives. */
static inline uint64_t bpf_constant(const struct bpf_writer *writer, const struct bpf_insn *in)
{
	return in->src_reg == BPF_PSEUDO_MAP_FD ? writer->job->maps[in->imm] : bpf_wide_value(in);
}

#endif
