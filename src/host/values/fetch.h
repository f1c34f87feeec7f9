/*
 * Compiling what is to be fetched (spec.h) into an eBPF program (abi/program.h).
 *
 * The event that the program writes begins with the function's id and the word of faults, four bytes each; the fields
 * follow, each at a multiple of its size; then the texts.
 *
 * Callers: values.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_FETCH_H
#define HOST_VALUES_FETCH_H

#include <stdint.h>

#include <bpf/machine.h>
#include <calltap/abi/program.h>

#include "condition.h"
#include "spec.h"

#define FETCH_INSNS	       3072u /* instructions of a program at the most: half of them 16 fields of six offsets each */
#define FETCH_FIRST	       8u /* bytes of the event before the first field */
#define FETCH_REGISTERS_X86_64 6u /* of integer arguments */
#define FETCH_FAULTS	       4u /* where the word of faults is: a bit for each field whose memory was not there */

struct fetch {
	struct bpf_insn insns[FETCH_INSNS];
	uint32_t count;		    /* more than FETCH_INSNS: the program is too large */
	uint32_t places[SPEC_ROWS]; /* of the fields in the event's bytes; of a structure, its address or its bytes */
	uint32_t size;		    /* of the event before the texts */
};

/* The machine that such programs are verified for. */
extern const struct bpf_machine fetch_machine;

/* registers: integer arguments that the target's CPU has in registers; those behind lie on the stack. */
void fetch_compile(struct fetch *out, const struct spec *spec, uint32_t registers);
/* As above for a call, but that the program returns `otherwise` where the condition is false.  spec NULL: no event. */
void fetch_compile_if(struct fetch *out, const struct spec *spec, uint32_t registers, const struct condition *condition,
		      enum calltap_verdict otherwise);

#endif
