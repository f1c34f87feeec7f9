/*
 * Compiling what is to be fetched (spec.h) into an eBPF program (abi/program.h).
 *
 * The event that the program writes begins with the function's id; the fields follow, each at a multiple of its size,
 * and the word of faults, where something may be one; then the texts.  Numbers alone become the event's words as they
 * are fetched; structures and texts are bytes, which the target makes words of.
 *
 * Callers: values.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_FETCH_H
#define HOST_VALUES_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include <bpf/machine.h>
#include <calltap/abi/program.h>

#include "bucket.h"
#include "condition.h"
#include "spec.h"

#define FETCH_INSNS	       3072u /* instructions of a program at the most: half of them 16 fields of six offsets each */
#define FETCH_FIRST	       4u /* bytes of the event before the first field */
#define FETCH_REGISTERS_X86_64 6u /* of integer arguments */

/* What a trigger asks for: where the condition is true, the tool is told of the number, below 32. */
struct fetch_ask {
	const struct condition *condition;
	uint32_t number;
};

struct fetch {
	struct bpf_insn insns[FETCH_INSNS];
	uint32_t count;		    /* more than FETCH_INSNS: the program is too large */
	uint32_t places[SPEC_ROWS]; /* of the fields in the event's bytes; of a structure, its address or its bytes */
	uint32_t faults; /* where the word of faults is: a bit for each field whose memory was not there; 0 = none is */
	uint32_t size;	 /* of the event before the texts */
	uint32_t flags; /* CALLTAP_PROGRAM_*; code of a plain one is without the first FETCH_PLAIN_BEGIN instructions */
	uint32_t words; /* that the program leaves on its stack (struct calltap_program), 0 = it writes bytes */
};

/* The machine of all programs but plain ones. */
extern const struct bpf_machine fetch_machine;

/*
 * A plain program, as it is verified, reads this, and begins with instructions that load what its code gets in
 * registers (struct calltap_program).
 */
struct fetch_plain_context {
	uint64_t registers[15]; /* struct calltap_registers of x86-64 */
	uint64_t function, head;
};
#define FETCH_PLAIN_BEGIN 3u
extern const struct bpf_machine fetch_plain_machine;

static inline bool fetch_is_plain(const struct fetch *fetch)
{
	return fetch->flags & CALLTAP_PROGRAM_PLAIN;
}

/* The machine that the program is verified for. */
static inline const struct bpf_machine *fetch_machine_of(const struct fetch *fetch)
{
	return fetch_is_plain(fetch) ? &fetch_plain_machine : &fetch_machine;
}

/* registers: integer arguments that the target's CPU has in registers; those behind lie on the stack. */
void fetch_compile(struct fetch *out, const struct spec *spec, uint32_t registers);
/*
 * As above, but that the program returns `otherwise` where the condition is false, as far as that is known: at the
 * call, or at the return (result).  spec NULL: no event.
 */
void fetch_compile_if(struct fetch *out, const struct spec *spec, uint32_t registers, const struct condition *condition,
		      enum calltap_verdict otherwise, bool result);
/* As above, with questions in front, each of which is about what the program knows. */
void fetch_compile_asking(struct fetch *out, const struct spec *spec, uint32_t registers,
			  const struct condition *condition, enum calltap_verdict otherwise, bool result,
			  const struct fetch_ask *asks, uint32_t ask_count);
/* What a program does of counting. */
enum fetch_part {
	FETCH_COUNT,	    /* all of it, at the call */
	FETCH_AWAIT,	    /* at the call: nothing but to wait for the return, whose program does */
	FETCH_COUNT_RESULT, /* all of it, at the return */
	FETCH_KEEP_KEY,	    /* at the call: find the key, for the number that the return's program */
	FETCH_SUM_RESULT,   /* adds up there */
};

/*
 * Count the event that spec tells, and record nothing.  condition NULL: each call.  With buckets the spec suits them,
 * or has no field (bucket.h).  A spec with a span (spec.h) begins or ends it there, with buckets of powers of two.
 */
void fetch_compile_count(struct fetch *out, enum fetch_part part, const struct spec *spec, uint32_t registers,
			 const struct condition *condition, const struct buckets *buckets);

#endif
