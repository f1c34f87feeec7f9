/*
 * Programs as the target's code, in the memory that targets map (abi/program.h).
 *
 * Callers: values.c, tests.  Context: host.
 */
#ifndef HOST_VALUES_CODE_H
#define HOST_VALUES_CODE_H

#include <stdint.h>

#include <bpf/compile.h>
#include <calltap/diag.h>

#include "fetch.h"

/* What programs have to know of the CPU that they run on. */
struct code_cpu {
	uint16_t machine;    /* e_machine */
	uint8_t registers;   /* that integer arguments have; those behind lie on the stack */
	const char *vectors; /* the names of those that floating-point arguments have, without their numbers */
	int (*compile)(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job);
	/* The CIE of all code (code.c): the column of the return address, and where it and the caller's stack are. */
	uint8_t column, rules[7];
};

struct code {
	const struct code_cpu *cpu;
	char *memory;  /* CALLTAP_PROGRAMS_SIZE bytes, the caller's */
	uint64_t used; /* bytes of code */
};

const struct code_cpu *code_cpu_find(uint16_t machine); /* NULL: of no CPU that targets have */
/* In memory that is all zeros: write the rules for unwinders. */
void code_begin(struct code *code, char *memory, const struct code_cpu *cpu);
/* Verify and compile a program, whose events are of that type, and enter it under its number. */
int code_put(struct code *code, uint16_t number, uint32_t type, const struct fetch *fetch, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
