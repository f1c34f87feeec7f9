/*
 * Running a program instruction by instruction: the meaning that the verifier's judgement and compiled code are
 * compared with.
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
	void *data; /* for helpers */
	/* Memory besides context and stack; a helper that gives an address may add to it while the program runs. */
	const struct bpf_memory *memory;
	size_t memory_count;
	/* If it is there: called in front of each instruction, with the registers. */
	void (*step)(void *arg, uint32_t at, const uint64_t registers[BPF_REGISTERS], const uint8_t *stack);
	void *arg;
	uint32_t steps_max; /* 0 = as many as there are instructions */
};

/*
 * Run a program of valid instructions; *result is its r0.  -EFAULT: it reached for memory that it may not touch;
 * -ELOOP: it took too many steps; -ERANGE: it ran over its end or called no helper.  None of these happens to a program
 * that the verifier has accepted.
 */
int bpf_interpret(uint64_t *result, const struct bpf_run *run) __attribute__((warn_unused_result));

#endif
