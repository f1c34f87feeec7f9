/*
 * The verifier's state, and the functions that its files share.  Context: host.
 */
#ifndef BPF_VERIFY_IMPL_H
#define BPF_VERIFY_IMPL_H

#include "verify.h"

struct verifier {
	const struct bpf_verify *job;
	struct calltap_diag *diag;
	struct bpf_state state; /* the state of the current path */
	uint32_t at;		/* the current instruction */
	uint32_t ids;		/* the number of ids that values got so far */
};

/* Refuse the program for its instruction at `at`; returns -EINVAL. */
int verifier_refuse(const struct verifier *verifier, const char *format, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));

/*
 * flow.c: all instructions have to be valid, to be reached and to lead on, joins[i]: paths meet at i.
 */
int verifier_check_flow(struct verifier *verifier, bool *joins) __attribute__((warn_unused_result));

/* access.c: check a load or store, and change the state as it does. */
int verifier_access(struct verifier *verifier, const struct bpf_insn *in) __attribute__((warn_unused_result));
/* access.c: check that a helper may read or write memory at a register's address, `least` to `most` bytes. */
int verifier_check_memory(struct verifier *verifier, unsigned reg, uint64_t least, uint64_t most, bool writes)
	__attribute__((warn_unused_result));
/* calls.c: check a call, and change the state as it does. */
int verifier_call(struct verifier *verifier, const struct bpf_insn *in) __attribute__((warn_unused_result));

/* states.c: true if a program that goes on from `after` does nothing that it could not do from `before`. */
bool verifier_covers(const struct bpf_state *before, const struct bpf_state *after);
/* states.c: all copies of a value that is an address or 0 become the one that a comparison has shown. */
void verifier_settle_entry(struct bpf_state *state, uint32_t id, bool is_zero);

static inline bool verifier_is_address(const struct bpf_value *value)
{
	return value->kind != BPF_NOTHING && value->kind != BPF_NUMBER;
}

static inline struct bpf_value verifier_number(struct bpf_range range)
{
	return (struct bpf_value){.kind = BPF_NUMBER, .range = range};
}

#endif
