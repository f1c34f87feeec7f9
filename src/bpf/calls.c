/*
 * The verifier's judgement of calls of helpers; see verify_impl.h.  Context: host.
 */
#include "verify_impl.h"

#define BYTES_MAX (1u << 28) /* the most bytes of memory that a helper is handed */

/* *least and *most become the bounds of the size in a register. */
static int check_size(struct verifier *verifier, unsigned reg, bool may_be_0, uint64_t *least, uint64_t *most)
{
	const struct bpf_value *value = &verifier->state.registers[reg];

	if (value->kind != BPF_NUMBER)
		return verifier_refuse(verifier, "r%u is a size, and no number", reg);
	if (value->range.umax > BYTES_MAX)
		return verifier_refuse(verifier, "r%u is a size, which has to be bounded before", reg);
	if (!may_be_0 && !value->range.umin)
		return verifier_refuse(verifier, "r%u is a size, and may be 0", reg);
	*least = value->range.umin;
	*most = value->range.umax;
	return 0;
}

/* `map` is the number of the map in an earlier argument, NULL if there is none. */
static int check_argument(struct verifier *verifier, const struct bpf_helper *helper, unsigned index,
			  const uint32_t *map)
{
	const struct bpf_value *value = &verifier->state.registers[1 + index];
	uint8_t next = index + 1 < BPF_ARGUMENTS ? helper->arguments[index + 1] : BPF_ARGUMENT_NONE;
	const struct bpf_map *shape;
	uint64_t least = 0, most = 0, size;
	int ret;

	if (value->kind == BPF_NOTHING)
		return verifier_refuse(verifier, "%s() takes r%u, which was never written", helper->name, 1 + index);
	switch (helper->arguments[index]) {
	case BPF_ARGUMENT_VALUE:
		return value->kind == BPF_NUMBER
			       ? 0
			       : verifier_refuse(verifier, "%s() takes a number in r%u, not an address", helper->name,
						 1 + index);
	case BPF_ARGUMENT_CONTEXT:
		return value->kind == BPF_OF_CONTEXT && !value->range.umax
			       ? 0
			       : verifier_refuse(verifier, "%s() takes the context in r%u", helper->name, 1 + index);
	case BPF_ARGUMENT_MAP:
		return value->kind == BPF_MAP
			       ? 0
			       : verifier_refuse(verifier, "%s() takes a map in r%u", helper->name, 1 + index);
	case BPF_ARGUMENT_KEY:
	case BPF_ARGUMENT_ENTRY:
		if (!map)
			return verifier_refuse(verifier, "%s() has no map for r%u", helper->name, 1 + index);
		shape = &verifier->job->machine->maps[*map];
		size = helper->arguments[index] == BPF_ARGUMENT_KEY ? shape->key_size : shape->value_size;
		return verifier_check_memory(verifier, 1 + index, size, size, false);
	case BPF_ARGUMENT_READ:
	case BPF_ARGUMENT_WRITE:
		if (verifier->state.registers[2 + index].kind == BPF_NOTHING)
			return verifier_refuse(verifier, "%s() takes r%u, which was never written", helper->name,
					       2 + index);
		ret = check_size(verifier, 2 + index, next == BPF_ARGUMENT_SIZE0, &least, &most);
		return ret ? ret
			   : verifier_check_memory(verifier, 1 + index, least, most,
						   helper->arguments[index] == BPF_ARGUMENT_WRITE);
	default: /* a size was checked with the memory in front of it */
		return 0;
	}
}

int verifier_call(struct verifier *verifier, const struct bpf_insn *in)
{
	const struct bpf_machine *machine = verifier->job->machine;
	const struct bpf_helper *helper;
	struct bpf_value *registers = verifier->state.registers, result;
	const uint32_t *map = NULL;
	uint32_t number = 0;

	if (in->imm <= 0 || (uint32_t)in->imm >= machine->helper_count || !machine->helpers[in->imm].name)
		return verifier_refuse(verifier, "there is no helper %d", in->imm);
	helper = &machine->helpers[in->imm];
	for (unsigned i = 0; i < BPF_ARGUMENTS && helper->arguments[i] != BPF_ARGUMENT_NONE; i++) {
		int ret = check_argument(verifier, helper, i, map);

		if (ret)
			return ret;
		if (helper->arguments[i] == BPF_ARGUMENT_MAP) {
			number = registers[1 + i].map;
			map = &number;
		}
	}
	result = verifier_number(bpf_range_all());
	if (helper->result == BPF_RESULT_ENTRY)
		result = (struct bpf_value){BPF_ENTRY_OR_0, number, ++verifier->ids, bpf_range_of(0)};
	registers[0] = result;
	for (unsigned i = 1; i <= BPF_ARGUMENTS; i++)
		registers[i] = (struct bpf_value){.kind = BPF_NOTHING};
	return 0;
}
