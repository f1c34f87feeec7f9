/*
 * A range is the verifier's knowledge of a number: bounds without and with sign, and bits.  Each operation gives a
 * range that holds all results for numbers in its operands' ranges.
 *
 * Callers: the verifier.  Context: host.  Pure.
 */
#ifndef BPF_RANGE_H
#define BPF_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct bpf_insn;

struct bpf_range {
	uint64_t umin, umax;
	int64_t smin, smax;
	uint64_t bits;	  /* bits that are known to be 1 */
	uint64_t unknown; /* bits that may be either; none of them is in `bits` */
};

struct bpf_range bpf_range_all(void);
struct bpf_range bpf_range_of(uint64_t number);
/* The range from 0 to 2^bits - 1. */
struct bpf_range bpf_range_bits(unsigned bits);
/* The range from -2^(bits - 1) to 2^(bits - 1) - 1. */
struct bpf_range bpf_range_signed(unsigned bits);

static inline bool bpf_range_is_one(const struct bpf_range *range)
{
	return range->umin == range->umax;
}

/* True if no number is in the range: the program cannot come to where the range is so. */
bool bpf_range_is_empty(const struct bpf_range *range);
bool bpf_range_holds(const struct bpf_range *range, uint64_t number);
/* True if all of `inner` is in `outer`. */
bool bpf_range_has(const struct bpf_range *outer, const struct bpf_range *inner);

/* The range of an arithmetic instruction's results; see bpf_alu(). */
struct bpf_range bpf_range_alu(const struct bpf_insn *in, const struct bpf_range *left, const struct bpf_range *right);
/* Both operands' ranges shrink to numbers with which a conditional jump jumps, or does not.  They may become empty. */
void bpf_range_decide(const struct bpf_insn *in, bool jumps, struct bpf_range *left, struct bpf_range *right);

#endif
