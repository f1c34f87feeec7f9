/*
 * Programs as the target's code, in the memory that targets map (abi/program.h): x86-64 so far.
 *
 * Callers: values.c, tests.  Context: host.
 */
#ifndef HOST_VALUES_CODE_H
#define HOST_VALUES_CODE_H

#include <stdint.h>

#include <calltap/diag.h>

#include "fetch.h"

struct code {
	char *memory;  /* CALLTAP_PROGRAMS_SIZE bytes, the caller's */
	uint64_t used; /* bytes of code */
};

/* In memory that is all zeros: write the rules for unwinders. */
void code_begin(struct code *code, char *memory);
/* Verify and compile a program, whose events are of that type, and enter it under its number. */
int code_put(struct code *code, uint16_t number, uint32_t type, const struct fetch *fetch, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
