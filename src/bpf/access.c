/*
 * The verifier's judgement of loads and stores; see verify_impl.h.  Context: host.
 */
#include <errno.h>

#include "verify_impl.h"

#define FAR (INT64_C(1) << 29)

/* The bytes [lo, hi) that an access may touch: distances from the stack's end, or from the context's or value's start.
 */
struct reach {
	int64_t lo, hi;
};

static int find_reach(struct verifier *verifier, struct reach *reach, unsigned reg, int16_t off, uint64_t size)
{
	const struct bpf_value *value = &verifier->state.registers[reg];

	switch (value->kind) {
	case BPF_NOTHING:
		return verifier_refuse(verifier, "r%u was never written", reg);
	case BPF_NUMBER:
		return verifier_refuse(verifier, "r%u is a number and no address", reg);
	case BPF_MAP:
		return verifier_refuse(verifier, "r%u is a map, which helpers alone can read", reg);
	case BPF_ENTRY_OR_0:
		return verifier_refuse(verifier, "r%u may be 0: it has to be compared with 0 before", reg);
	default:
		break;
	}
	if (value->range.smin < -FAR || value->range.smax > FAR)
		return verifier_refuse(verifier, "r%u may be anywhere: its distance has to be bounded before", reg);
	reach->lo = value->range.smin + off;
	reach->hi = value->range.smax + off + (int64_t)size;
	return 0;
}

static int check_bounds(struct verifier *verifier, const struct reach *reach, unsigned reg)
{
	const struct bpf_value *value = &verifier->state.registers[reg];
	int64_t lo = 0, hi;
	const char *what;

	if (value->kind == BPF_OF_STACK) {
		what = "the stack";
		lo = -(int64_t)BPF_STACK_SIZE;
		hi = 0;
	} else if (value->kind == BPF_OF_CONTEXT) {
		what = "the context";
		hi = verifier->job->machine->context_size;
	} else {
		what = "the map's value";
		hi = verifier->job->machine->maps[value->map].value_size;
	}
	if (reach->lo >= lo && reach->hi <= hi)
		return 0;
	return verifier_refuse(verifier, "bytes %lld to %lld are not all within %s, bytes %lld to %lld",
			       (long long)reach->lo, (long long)reach->hi - 1, what, (long long)lo, (long long)hi - 1);
}

/* Context, stack and maps' values begin at multiples of 8, so an access is aligned if its distance is. */
static int check_alignment(struct verifier *verifier, unsigned reg, int16_t off, unsigned size)
{
	const struct bpf_range *range = &verifier->state.registers[reg].range;
	uint64_t low = size - 1;

	if (!(range->unknown & low) && !((range->bits + (uint64_t)(int64_t)off) & low))
		return 0;
	return verifier_refuse(verifier, "%u bytes are not at a multiple of %u", size, size);
}

static struct bpf_slot *slot_at(struct verifier *verifier, int64_t distance)
{
	return &verifier->state.stack[(uint64_t)(distance + (int64_t)BPF_STACK_SIZE) / 8];
}

static uint8_t bytes_of(int64_t distance, unsigned size)
{
	return (uint8_t)(((1u << size) - 1) << (distance & 7));
}

/* The stack's bytes get contents of which nothing is known; without `for_certain` they may also stay as they are. */
static void write_bytes(struct verifier *verifier, const struct reach *reach, bool for_certain)
{
	for (int64_t at = reach->lo; at < reach->hi; at++) {
		struct bpf_slot *slot = slot_at(verifier, at);

		slot->is_value = false;
		if (for_certain)
			slot->written |= bytes_of(at, 1);
	}
}

static int read_bytes(struct verifier *verifier, const struct reach *reach)
{
	for (int64_t at = reach->lo; at < reach->hi; at++) {
		const struct bpf_slot *slot = slot_at(verifier, at);

		if (!(slot->written & bytes_of(at, 1)))
			return verifier_refuse(verifier, "byte %lld of the stack was never written", (long long)at);
		if (slot->is_value && verifier_is_address(&slot->value))
			return verifier_refuse(verifier, "bytes %lld and on of the stack are an address",
					       (long long)(at & ~7));
	}
	return 0;
}

static struct bpf_value loaded(const struct bpf_insn *in)
{
	unsigned bits = bpf_access_size(in) * 8;

	return verifier_number(bpf_class(in) == BPF_LDX && bpf_mode(in) == BPF_MEMSX ? bpf_range_signed(bits)
										     : bpf_range_bits(bits));
}

static int load(struct verifier *verifier, const struct bpf_insn *in)
{
	const struct bpf_value *base = &verifier->state.registers[in->src_reg];
	unsigned size = bpf_access_size(in);
	struct bpf_value value = loaded(in);
	struct reach reach = {0, 0};
	int ret = find_reach(verifier, &reach, in->src_reg, in->off, size);

	if (!ret)
		ret = check_bounds(verifier, &reach, in->src_reg);
	if (!ret)
		ret = check_alignment(verifier, in->src_reg, in->off, size);
	if (!ret && base->kind == BPF_OF_STACK) {
		const struct bpf_slot *slot = slot_at(verifier, reach.lo);

		if (slot->is_value && size == 8)
			value = slot->value;
		else
			ret = read_bytes(verifier, &reach);
	}
	if (!ret)
		verifier->state.registers[in->dst_reg] = value;
	return ret;
}

/* *value becomes the register or the number that the instruction stores. */
static int find_stored(struct verifier *verifier, const struct bpf_insn *in, struct bpf_value *value)
{
	if (bpf_class(in) == BPF_ST) {
		*value = verifier_number(bpf_range_of((uint64_t)(int64_t)in->imm));
		return 0;
	}
	*value = verifier->state.registers[in->src_reg];
	return value->kind == BPF_NOTHING ? verifier_refuse(verifier, "r%u was never written", in->src_reg) : 0;
}

static int exchange(struct verifier *verifier, const struct bpf_insn *in, const struct reach *reach)
{
	struct bpf_value *registers = verifier->state.registers;

	if (registers[in->src_reg].kind != BPF_NUMBER || (in->imm == BPF_CMPXCHG && registers[0].kind != BPF_NUMBER))
		return verifier_refuse(verifier, "an atomic operation takes numbers");
	if (registers[in->dst_reg].kind == BPF_OF_STACK) {
		int ret = read_bytes(verifier, reach);

		if (ret)
			return ret;
		write_bytes(verifier, reach, true);
	}
	if (in->imm == BPF_CMPXCHG)
		registers[0] = loaded(in);
	else if (in->imm & BPF_FETCH)
		registers[in->src_reg] = loaded(in);
	return 0;
}

static int store(struct verifier *verifier, const struct bpf_insn *in)
{
	const struct bpf_value *base = &verifier->state.registers[in->dst_reg];
	unsigned size = bpf_access_size(in);
	struct bpf_value value;
	struct reach reach = {0, 0};
	int ret = find_reach(verifier, &reach, in->dst_reg, in->off, size);

	if (!ret)
		ret = check_bounds(verifier, &reach, in->dst_reg);
	if (!ret)
		ret = check_alignment(verifier, in->dst_reg, in->off, size);
	if (!ret)
		ret = find_stored(verifier, in, &value);
	if (ret)
		return ret;
	if (base->kind == BPF_OF_CONTEXT)
		return verifier_refuse(verifier, "the context can be read only");
	if (bpf_class(in) == BPF_STX && bpf_mode(in) == BPF_ATOMIC)
		return exchange(verifier, in, &reach);
	if (verifier_is_address(&value) && (base->kind != BPF_OF_STACK || size != 8))
		return verifier_refuse(verifier, "r%u is an address, which can be stored on the stack alone, all of it",
				       in->src_reg);
	if (base->kind != BPF_OF_STACK)
		return 0;
	if (size == 8)
		*slot_at(verifier, reach.lo) = (struct bpf_slot){0xff, true, value};
	else
		write_bytes(verifier, &reach, true);
	return 0;
}

int verifier_access(struct verifier *verifier, const struct bpf_insn *in)
{
	return bpf_class(in) == BPF_LDX ? load(verifier, in) : store(verifier, in);
}

int verifier_check_memory(struct verifier *verifier, unsigned reg, uint64_t least, uint64_t most, bool writes)
{
	const struct bpf_value *value = &verifier->state.registers[reg];
	struct reach reach = {0, 0};
	int ret = find_reach(verifier, &reach, reg, 0, most);

	if (!ret && writes && value->kind == BPF_OF_CONTEXT)
		ret = verifier_refuse(verifier, "r%u is of the context, which can be read only", reg);
	if (!ret)
		ret = check_bounds(verifier, &reach, reg);
	if (ret || value->kind != BPF_OF_STACK)
		return ret;
	if (!writes)
		return read_bytes(verifier, &reach);
	write_bytes(verifier, &reach, false);
	reach.hi -= (int64_t)(most - least);
	write_bytes(verifier, &reach, true);
	return 0;
}
