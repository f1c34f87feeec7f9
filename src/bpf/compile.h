/*
 * Compiling a program that the verifier has accepted into a CPU's code.
 *
 * The code is a function of the C calling convention: uint64_t program(void *context).  It takes no more than 640 bytes
 * of stack besides what helpers take, has a frame as other functions with a frame pointer, uses general registers
 * alone, and keeps no address of itself: it may lie anywhere.  Bare code leaves frame, stack (and two words above
 * its end) and kept registers to its caller, so that one rule tells how to unwind from each of its instructions
 * (abi/program.h).  Where a call leaves its return address in a register, bare code has it in one that helpers keep:
 * x23 (AArch64), s6 (RISC-V).  AArch64's has the beginning of its stack in x24.
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
	/*
	 * By helper and map number, where the code will run: addresses of functions, and the numbers that `map N`
	 * gives.  A helper takes up to five numbers of 64 bits and returns one.  Narrower types are wrong here: psABIs
	 * differ in what a register holds above them.
	 */
	const uint64_t *helpers, *maps;
	/* helpers NULL: how far behind the code's first byte a table of their addresses will lie, on a page's start. */
	int64_t helpers_at;
	bool bare;
};

/* Room that is enough for the code of a program: bytes for each of its instructions, and bytes more. */
enum { BPF_CODE_PER_INSN = 80, BPF_CODE_MORE = 128 };

/*
 * Write the code for a CPU; *length: its bytes.  -E2BIG: there is no room, or the program has too many instructions.
 * On AArch64 and RISC-V the writer of the code has to make the CPU see it, as with all code.
 */
int bpf_compile_x86_64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
	__attribute__((warn_unused_result));
int bpf_compile_aarch64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
	__attribute__((warn_unused_result));
int bpf_compile_riscv64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
	__attribute__((warn_unused_result));

#endif
