/*
 * What the verifier's files share.  Context: host.
 */
#ifndef BPF_VERIFY_IMPL_H
#define BPF_VERIFY_IMPL_H

#include "verify.h"

struct verifier {
	const struct bpf_verify *job;
	struct calltap_diag *diag;
	struct bpf_state state; /* of the path that is followed */
	uint32_t at;		/* the instruction */
	uint32_t ids;		/* given so far */
};

/* Refuse the program for its instruction at `at`; returns -EINVAL. */
int verifier_refuse(const struct verifier *verifier, const char *format, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));

/* flow.c: whether all instructions are some, can be reached and lead on, without loops.  *joins: where paths meet. */
int verifier_check_flow(struct verifier *verifier, bool *joins) __attribute__((warn_unused_result));

/* access.c: a load or store.  All change the state as the instruction does. */
int verifier_access(struct verifier *verifier, const struct bpf_insn *in) __attribute__((warn_unused_result));
/* access.c: whether memory at a register's address, of `least` to `most` bytes, may be read, or written. */
int verifier_check_memory(struct verifier *verifier, unsigned reg, uint64_t least, uint64_t most, bool writes)
	__attribute__((warn_unused_result));
/* calls.c */
int verifier_call(struct verifier *verifier, const struct bpf_insn *in) __attribute__((warn_unused_result));

/* states.c: True if whatever may follow from `after` may follow from `before`, which was found to be good. */
bool verifier_covers(const struct bpf_state *before, const struct bpf_state *after);
/* states.c: Make all copies of a value that is an address or 0 what it was found to be. */
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
