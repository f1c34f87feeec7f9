/*
 * The verifier: it proves that a program ends, and that it never reads what nobody wrote, never touches memory but its
 * context, its stack and the values of maps, and calls helpers with what they take.
 *
 * The verifier follows all paths, as the kernel's does, and knows for each register and stack slot what the path has
 * put there.  It goes through a loop once for each round.  A program of more than BPF_COUNT_MAX instructions, or one
 * whose paths take too many steps, is refused.
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
	BPF_NOTHING, /* the program has not written the register */
	BPF_NUMBER,
	BPF_OF_CONTEXT, /* an address in the context; the range is the distance from its beginning */
	BPF_OF_STACK,	/* an address on the stack; the range is the distance from its end, which is negative */
	BPF_OF_ENTRY,	/* an address in a map's value; the range is the distance from its beginning */
	BPF_ENTRY_OR_0, /* the address of a map's value, or 0 */
	BPF_MAP,	/* the number of a map */
};

/* The verifier's knowledge of a register. */
struct bpf_value {
	uint8_t kind; /* enum bpf_kind */
	uint32_t map; /* the map's number, for the last three kinds */
	uint32_t id;  /* for BPF_ENTRY_OR_0: all copies of a helper's result have the same id */
	struct bpf_range range;
};

/* The verifier's steps at the most; a program that was accepted runs no more instructions than it took steps. */
#define BPF_STEPS_MAX 200000u

#define BPF_SLOTS (BPF_STACK_SIZE / 8)

/* The verifier's knowledge of eight bytes of the stack. */
struct bpf_slot {
	uint8_t written; /* a bit for each byte that was written; the lowest bit is for the lowest byte */
	bool is_value;	 /* the eight bytes are one register's value */
	struct bpf_value value;
};

struct bpf_state {
	struct bpf_value registers[BPF_REGISTERS];
	struct bpf_slot stack[BPF_SLOTS]; /* from the lowest address to the highest */
};

struct bpf_verify {
	const struct bpf_machine *machine;
	const struct bpf_insn *insns;
	uint32_t count;
	/* The verifier calls this with its state in front of each instruction of each path; NULL = it calls nothing. */
	void (*step)(void *arg, uint32_t at, const struct bpf_state *state);
	void *arg;
};

/*
 * Verify a program.  -EINVAL: it is refused, and the diagnosis names the instruction and the reason; -E2BIG: its paths
 * take too many steps; -ENOMEM.
 */
int bpf_verify(const struct bpf_verify *verify, struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
