/*
 * Programs in the assembly that the bpf_conformance project's vectors are written in: "add32 %r0, %r3",
 * "ldxdw %r0, [%r10-8]", "jne %r0, 5, label", "lock fetch add [%r1+0], %r2".
 */
#ifndef TEST_UNIT_BPF_VECTORS_H
#define TEST_UNIT_BPF_VECTORS_H

#include <stdint.h>

#include <bpf/isa.h>

enum { VECTOR_INSNS = 512 };

/*
 * Read lines; *count instructions.  NULL, or why it is no such program: "call" if it is one, but calls something.
 * Changes the text.
 */
const char *vectors_assemble(struct bpf_insn insns[VECTOR_INSNS], uint32_t *count, char *text);

#endif
