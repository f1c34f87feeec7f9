/*
 * Comparisons and changes of the verifier's states; see verify_impl.h.  Pure.
 */
#include "verify_impl.h"

/* Pairs of ids that stand for the same in two states. */
struct pairs {
	uint32_t before[BPF_REGISTERS + BPF_SLOTS], after[BPF_REGISTERS + BPF_SLOTS];
	unsigned count;
};

static bool are_pair(struct pairs *pairs, uint32_t before, uint32_t after)
{
	for (unsigned i = 0; i < pairs->count; i++)
		if (pairs->before[i] == before || pairs->after[i] == after)
			return pairs->before[i] == before && pairs->after[i] == after;
	pairs->before[pairs->count] = before;
	pairs->after[pairs->count++] = after;
	return true;
}

static bool covers(struct pairs *pairs, const struct bpf_value *before, const struct bpf_value *after)
{
	if (before->kind == BPF_NOTHING)
		return true; /* the paths from there never read it */
	if (before->kind != after->kind || before->map != after->map)
		return false;
	if (before->kind == BPF_ENTRY_OR_0 && !are_pair(pairs, before->id, after->id))
		return false;
	return bpf_range_has(&before->range, &after->range);
}

static bool covers_slot(struct pairs *pairs, const struct bpf_slot *before, const struct bpf_slot *after)
{
	if (before->is_value)
		return after->is_value && covers(pairs, &before->value, &after->value);
	if (before->written & ~after->written)
		return false;
	/* A number's bytes may be read one by one, an address's may not. */
	return !before->written || !after->is_value || after->value.kind == BPF_NUMBER;
}

bool verifier_covers(const struct bpf_state *before, const struct bpf_state *after)
{
	struct pairs pairs = {.count = 0};

	for (unsigned i = 0; i < BPF_REGISTERS; i++)
		if (!covers(&pairs, &before->registers[i], &after->registers[i]))
			return false;
	for (unsigned i = 0; i < BPF_SLOTS; i++)
		if (!covers_slot(&pairs, &before->stack[i], &after->stack[i]))
			return false;
	return true;
}

static void settle(struct bpf_value *value, uint32_t id, bool is_zero)
{
	if (value->kind != BPF_ENTRY_OR_0 || value->id != id)
		return;
	if (is_zero)
		*value = verifier_number(bpf_range_of(0));
	else
		value->kind = BPF_OF_ENTRY;
}

void verifier_settle_entry(struct bpf_state *state, uint32_t id, bool is_zero)
{
	for (unsigned i = 0; i < BPF_REGISTERS; i++)
		settle(&state->registers[i], id, is_zero);
	for (unsigned i = 0; i < BPF_SLOTS; i++)
		if (state->stack[i].is_value)
			settle(&state->stack[i].value, id, is_zero);
}
