/*
 * The verifier: it proves that a program ends, and that it never reads what nobody wrote, never touches memory but its
 * context, its stack and the values of maps, and calls helpers with what they take.
 *
 * It follows all paths as the kernel's does, with what is known of each register and stack slot on that path.  Loops
 * are refused; a program of more than BPF_COUNT_MAX instructions, or one whose paths take too many steps, is too.
 *
 * Callers: whoever has programs.  Context: host.  A program is untrusted.
 */
#ifndef BPF_VERIFY_H
#define BPF_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>

#include "machine.h"
#include "range.h"

enum bpf_kind {
	BPF_NOTHING, /* nobody has written it */
	BPF_NUMBER,
	BPF_OF_CONTEXT, /* an address; the range is the distance from its beginning */
	BPF_OF_STACK,	/* the same, from the stack's end: negative */
	BPF_OF_ENTRY,	/* of a map's value */
	BPF_ENTRY_OR_0, /* the same, or 0 */
	BPF_MAP,	/* the number of a map */
};

/* What is known of a register. */
struct bpf_value {
	uint8_t kind; /* enum bpf_kind */
	uint32_t map; /* of the last three kinds */
	uint32_t id;  /* of BPF_ENTRY_OR_0: copies of one value have one */
	struct bpf_range range;
};

#define BPF_SLOTS (BPF_STACK_SIZE / 8)

/* Eight bytes of the stack. */
struct bpf_slot {
	uint8_t written; /* a bit for each byte, from the lowest */
	bool is_value;	 /* all of it is one register's value */
	struct bpf_value value;
};

struct bpf_state {
	struct bpf_value registers[BPF_REGISTERS];
	struct bpf_slot stack[BPF_SLOTS]; /* the first one is the lowest */
};

struct bpf_verify {
	const struct bpf_machine *machine;
	const struct bpf_insn *insns;
	uint32_t count;
	/* If it is there: called with what is known in front of each instruction, on each path. */
	void (*step)(void *arg, uint32_t at, const struct bpf_state *state);
	void *arg;
};

/* 0 or -EINVAL, and why: the message names the instruction.  -E2BIG: it takes too many steps to tell.  -ENOMEM. */
int bpf_verify(const struct bpf_verify *verify, struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
