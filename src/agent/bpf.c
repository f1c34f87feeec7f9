/*
 * The kernel's interpreter of system call filters, once more (bpf.h).
 * Called by sandbox.c.  Context: control; pure, reads nothing but its input.
 * Source: Documentation/networking/filter.rst and kernel/seccomp.c of Linux.
 */
#include <stdbool.h>

#include <agent/bpf.h>
#include <base/mem.h>

/* The state of a filter while it runs. */
struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
};

static uint32_t calculate(uint16_t code, uint32_t a, uint32_t with)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + with;
	case BPF_SUB:
		return a - with;
	case BPF_MUL:
		return a * with;
	case BPF_DIV:
		return a / with; /* bpf_answer() has ended the program where that cannot be */
	case BPF_AND:
		return a & with;
	case BPF_OR:
		return a | with;
	case BPF_XOR:
		return a ^ with;
	case BPF_LSH:
		return a << (with & 31);
	case BPF_RSH:
		return a >> (with & 31);
	default: /* BPF_NEG */
		return -a;
	}
}

static bool is_true(uint16_t code, uint32_t a, uint32_t with)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == with;
	case BPF_JGT:
		return a > with;
	case BPF_JGE:
		return a >= with;
	default: /* BPF_JSET */
		return a & with;
	}
}

static uint32_t loaded(const struct machine *machine, const struct sock_filter *step, const struct seccomp_data *data)
{
	uint32_t word;

	switch (BPF_MODE(step->code)) {
	case BPF_ABS:
		if (step->k > sizeof(*data) - sizeof(word))
			return 0;
		memcpy(&word, (const char *)data + step->k, sizeof(word));
		return word;
	case BPF_LEN:
		return sizeof(*data);
	case BPF_MEM:
		return machine->memory[step->k % BPF_MEMWORDS];
	default: /* BPF_IMM */
		return step->k;
	}
}

/* Answer like the kernel's interpreter.  The kernel refuses some filters: what is said of those does not matter. */
uint32_t bpf_answer(const struct sock_filter *steps, uint32_t count, const struct seccomp_data *data)
{
	struct machine machine = {0};

	for (uint64_t at = 0; at < count; at++) { /* jumps go forward only */
		const struct sock_filter *step = &steps[at];
		uint32_t with = BPF_SRC(step->code) == BPF_X ? machine.x : step->k;

		switch (BPF_CLASS(step->code)) {
		case BPF_LD:
			machine.a = loaded(&machine, step, data);
			break;
		case BPF_LDX:
			machine.x = loaded(&machine, step, data);
			break;
		case BPF_ST:
			machine.memory[step->k % BPF_MEMWORDS] = machine.a;
			break;
		case BPF_STX:
			machine.memory[step->k % BPF_MEMWORDS] = machine.x;
			break;
		case BPF_ALU:
			if (BPF_OP(step->code) == BPF_DIV && !with) /* the kernel ends such a program with 0 */
				return SECCOMP_RET_KILL_THREAD;
			machine.a = calculate(step->code, machine.a, with);
			break;
		case BPF_JMP:
			if (BPF_OP(step->code) == BPF_JA)
				at += step->k;
			else
				at += is_true(step->code, machine.a, with) ? step->jt : step->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(step->code) == BPF_A ? machine.a : step->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(step->code) == BPF_TAX)
				machine.x = machine.a;
			else
				machine.a = machine.x;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}
