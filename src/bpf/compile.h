/*
 * Compiling a program that the verifier has accepted into a CPU's code.
 *
 * The code is a function of the C calling convention: uint64_t program(void *context).  It takes no more than 640 bytes
 * of stack besides what helpers take, uses general registers alone, and keeps no address of itself: it may lie
 * anywhere.  Bare code leaves frame, stack and kept registers to its caller, so that one rule tells how to unwind from
 * each of its instructions (abi/program.h).
 *
 * Callers: whoever has programs.  Context: host.
 */
#ifndef BPF_COMPILE_H
#define BPF_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_insn;

struct bpf_compile {
	const struct bpf_insn *insns;
	uint32_t count;
	/* By helper and map number: addresses of functions, and what `map N` gives, where the code will run. */
	const uint64_t *helpers, *maps;
	/* helpers NULL: how far behind the code's first byte a table of their addresses will lie. */
	int64_t helpers_at;
	bool bare;
};

/*
 * Write the code for x86-64; *length: its bytes.  -E2BIG: there is no room; 64 bytes for each instruction, and 128
 * more, are enough.
 */
int bpf_compile_x86_64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
	__attribute__((warn_unused_result));

#endif
