/*
 * The interpreter runs a program instruction by instruction.  It defines what programs mean: tests compare the
 * verifier's judgement and compiled code with it.
 *
 * Callers: tests.  Context: host.
 */
#ifndef BPF_INTERPRET_H
#define BPF_INTERPRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "machine.h"

/* Memory that a program may touch. */
struct bpf_memory {
	void *at;
	size_t size;
	bool is_writable;
};

struct bpf_run {
	const struct bpf_machine *machine;
	const struct bpf_insn *insns;
	uint32_t count;
	void *context;
	void *data; /* the first parameter of helpers */
	/* Memory besides context and stack; a helper that gives an address may add to it while the program runs. */
	const struct bpf_memory *memory;
	size_t memory_count;
	/* The interpreter calls this in front of each instruction, with the registers; NULL = it calls nothing. */
	void (*step)(void *arg, uint32_t at, const uint64_t registers[BPF_REGISTERS], const uint8_t *stack);
	void *arg;
	uint32_t steps_max; /* 0 = the number of instructions */
};

/*
 * Run a program of valid instructions; *result is its r0.  -EFAULT: the program reached for memory that it may not
 * touch; -ELOOP: it took too many steps; -ERANGE: it ran over its end, or called a helper that does not exist.  No
 * program that the verifier has accepted ends so.
 */
int bpf_interpret(uint64_t *result, const struct bpf_run *run) __attribute__((warn_unused_result));

#endif
