/*
 * The interpreter; see interpret.h.
 *
 * Numbers wrap round, shifts take the count's low bits, a division by 0 gives 0 and its rest is the dividend (RFC
 * 9669).  Each access is compared with the memory that the program has.  Context: host.
 */
#include <errno.h>
#include <string.h>

#include "interpret.h"

struct state {
	const struct bpf_run *run;
	uint64_t registers[BPF_REGISTERS];
	_Alignas(8) uint8_t stack[BPF_STACK_SIZE];
};

static uint64_t divide(uint64_t left, uint64_t right, bool wide, bool is_signed)
{
	if (!right)
		return 0;
	if (!is_signed)
		return left / right;
	if (right == (wide ? UINT64_MAX : UINT32_MAX))
		return 0 - left;
	return wide ? (uint64_t)((int64_t)left / (int64_t)right) : (uint64_t)(int64_t)((int32_t)left / (int32_t)right);
}

static uint64_t rest_of(uint64_t left, uint64_t right, bool wide, bool is_signed)
{
	if (!right)
		return left;
	if (!is_signed)
		return left % right;
	if (right == (wide ? UINT64_MAX : UINT32_MAX))
		return 0;
	return wide ? (uint64_t)((int64_t)left % (int64_t)right) : (uint64_t)(int64_t)((int32_t)left % (int32_t)right);
}

static uint64_t extend(uint64_t value, unsigned bits)
{
	return bits == 8 ? (uint64_t)(int8_t)value : bits == 16 ? (uint64_t)(int16_t)value : (uint64_t)(int32_t)value;
}

/* Programs see numbers with the lowest byte first, as all CPUs have them that programs are compiled for. */
static uint64_t swap(uint64_t value, const struct bpf_insn *in)
{
	bool swaps = bpf_class(in) == BPF_ALU64 || bpf_has_register(in);

	switch (in->imm) {
	case 16:
		return swaps ? __builtin_bswap16((uint16_t)value) : (uint16_t)value;
	case 32:
		return swaps ? __builtin_bswap32((uint32_t)value) : (uint32_t)value;
	default:
		return swaps ? __builtin_bswap64(value) : value;
	}
}

/* Operands of 32 bits have no upper halves; the caller drops the result's. */
static uint64_t compute(const struct bpf_insn *in, uint64_t left, uint64_t right, bool wide)
{
	unsigned shift = (unsigned)right & (wide ? 63 : 31);

	switch (bpf_operation(in)) {
	case BPF_ADD:
		return left + right;
	case BPF_SUB:
		return left - right;
	case BPF_MUL:
		return left * right;
	case BPF_DIV:
		return divide(left, right, wide, in->off == BPF_SIGNED);
	case BPF_OR:
		return left | right;
	case BPF_AND:
		return left & right;
	case BPF_LSH:
		return left << shift;
	case BPF_RSH:
		return left >> shift;
	case BPF_NEG:
		return 0 - left;
	case BPF_MOD:
		return rest_of(left, right, wide, in->off == BPF_SIGNED);
	case BPF_XOR:
		return left ^ right;
	case BPF_ARSH:
		return wide ? (uint64_t)((int64_t)left >> shift) : (uint64_t)(int64_t)((int32_t)left >> shift);
	default:
		return in->off ? extend(right, (unsigned)in->off) : right;
	}
}

uint64_t bpf_alu(const struct bpf_insn *in, uint64_t left, uint64_t right)
{
	bool wide = bpf_class(in) == BPF_ALU64;
	uint64_t result;

	if (bpf_operation(in) == BPF_END)
		return swap(left, in);
	if (wide)
		return compute(in, left, right, true);
	result = compute(in, (uint32_t)left, (uint32_t)right, false);
	return (uint32_t)result;
}

bool bpf_compare(const struct bpf_insn *in, uint64_t left, uint64_t right)
{
	bool wide = bpf_class(in) == BPF_JMP;
	int64_t a = wide ? (int64_t)left : (int32_t)left, b = wide ? (int64_t)right : (int32_t)right;

	if (!wide) {
		left = (uint32_t)left;
		right = (uint32_t)right;
	}
	switch (bpf_operation(in)) {
	case BPF_JEQ:
		return left == right;
	case BPF_JNE:
		return left != right;
	case BPF_JGT:
		return left > right;
	case BPF_JGE:
		return left >= right;
	case BPF_JLT:
		return left < right;
	case BPF_JLE:
		return left <= right;
	case BPF_JSGT:
		return a > b;
	case BPF_JSGE:
		return a >= b;
	case BPF_JSLT:
		return a < b;
	case BPF_JSLE:
		return a <= b;
	case BPF_JSET:
		return left & right;
	default:
		return true;
	}
}

static bool lies_in(uint64_t at, size_t size, const void *memory, size_t memory_size)
{
	return at - (uint64_t)(uintptr_t)memory <= memory_size &&
	       size <= memory_size - (at - (uint64_t)(uintptr_t)memory);
}

static void *reach(struct state *state, uint64_t at, size_t size, bool writes)
{
	const struct bpf_run *run = state->run;

	if (lies_in(at, size, state->stack, sizeof(state->stack)))
		return (void *)(uintptr_t)at;
	if (!writes && lies_in(at, size, run->context, run->machine->context_size))
		return (void *)(uintptr_t)at;
	for (size_t i = 0; i < run->memory_count; i++)
		if ((run->memory[i].is_writable || !writes) &&
		    lies_in(at, size, run->memory[i].at, run->memory[i].size))
			return (void *)(uintptr_t)at;
	return NULL;
}

static uint64_t read_bytes(const void *at, unsigned size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return value;
}

static int load(struct state *state, const struct bpf_insn *in)
{
	unsigned size = bpf_access_size(in);
	const void *at = reach(state, state->registers[in->src_reg] + (uint64_t)(int64_t)in->off, size, false);
	uint64_t value;

	if (!at)
		return -EFAULT;
	value = read_bytes(at, size);
	state->registers[in->dst_reg] = bpf_mode(in) == BPF_MEMSX ? extend(value, size * 8) : value;
	return 0;
}

/* The steps follow each other without atomic instructions: the interpreter has one thread. */
static void exchange(struct state *state, const struct bpf_insn *in, void *at)
{
	unsigned size = bpf_access_size(in);
	uint64_t mask = size == 8 ? UINT64_MAX : UINT32_MAX, before = read_bytes(at, size), after;
	uint64_t operand = state->registers[in->src_reg] & mask;

	switch (in->imm & ~BPF_FETCH) {
	case BPF_ADD:
		after = before + operand;
		break;
	case BPF_OR:
		after = before | operand;
		break;
	case BPF_AND:
		after = before & operand;
		break;
	case BPF_XOR:
		after = before ^ operand;
		break;
	case BPF_CMPXCHG & ~BPF_FETCH:
		after = before == (state->registers[0] & mask) ? operand : before;
		break;
	default:
		after = operand;
	}
	memcpy(at, &after, size);
	if (in->imm == BPF_CMPXCHG)
		state->registers[0] = before;
	else if (in->imm & BPF_FETCH)
		state->registers[in->src_reg] = before;
}

static int store(struct state *state, const struct bpf_insn *in)
{
	unsigned size = bpf_access_size(in);
	void *at = reach(state, state->registers[in->dst_reg] + (uint64_t)(int64_t)in->off, size, true);
	uint64_t value = bpf_class(in) == BPF_ST ? (uint64_t)(int64_t)in->imm : state->registers[in->src_reg];

	if (!at)
		return -EFAULT;
	if (bpf_class(in) == BPF_STX && bpf_mode(in) == BPF_ATOMIC)
		exchange(state, in, at);
	else
		memcpy(at, &value, size);
	return 0;
}

static int call(struct state *state, const struct bpf_insn *in)
{
	const struct bpf_machine *machine = state->run->machine;

	if (in->imm <= 0 || (uint32_t)in->imm >= machine->helper_count || !machine->helpers[in->imm].run)
		return -ERANGE;
	state->registers[0] = machine->helpers[in->imm].run(state->run->data, state->registers + 1);
	/* A call destroys its arguments. */
	for (unsigned i = 1; i <= BPF_ARGUMENTS; i++)
		state->registers[i] = 0xdeadbeefdeadbeefull;
	return 0;
}

static uint64_t operand(const struct state *state, const struct bpf_insn *in)
{
	return bpf_has_register(in) ? state->registers[in->src_reg] : (uint64_t)(int64_t)in->imm;
}

/* Execute an instruction; *at, which is the next one's number, moves on by as many as are skipped. */
static int execute(struct state *state, const struct bpf_insn *in, int64_t *at)
{
	uint64_t *to = &state->registers[in->dst_reg];

	switch (bpf_class(in)) {
	case BPF_ALU:
	case BPF_ALU64:
		*to = bpf_alu(in, *to, bpf_operation(in) == BPF_END ? 0 : operand(state, in));
		return 0;
	case BPF_LD:
		*to = bpf_wide_value(in);
		++*at;
		return 0;
	case BPF_LDX:
		return load(state, in);
	case BPF_ST:
	case BPF_STX:
		return store(state, in);
	default:
		if (bpf_operation(in) == BPF_CALL)
			return call(state, in);
		if (bpf_operation(in) == BPF_JA || bpf_compare(in, *to, operand(state, in)))
			*at += bpf_jump_distance(in);
		return 0;
	}
}

int bpf_interpret(uint64_t *result, const struct bpf_run *run)
{
	uint32_t steps = run->steps_max ? run->steps_max : run->count;
	struct state state = {.run = run};
	int64_t at = 0;
	int ret = 0;

	state.registers[BPF_REG_1] = (uint64_t)(uintptr_t)run->context;
	state.registers[BPF_FRAME] = (uint64_t)(uintptr_t)(state.stack + sizeof(state.stack));
	while (!ret) {
		const struct bpf_insn *in = &run->insns[at];

		if (at < 0 || at >= run->count)
			return -ERANGE;
		if (!steps--)
			return -ELOOP;
		if (run->step)
			run->step(run->arg, (uint32_t)at, state.registers, state.stack);
		if (bpf_is_exit(in)) {
			*result = state.registers[0];
			return 0;
		}
		at++;
		ret = execute(&state, in, &at);
	}
	return ret;
}
