/*
 * The passes of a compiler over a program; see compile_impl.h.  Context: host.  Pure.
 */
#include <errno.h>

#include "compile_impl.h"

static void put_instruction(struct bpf_writer *writer, const struct bpf_cpu *cpu, const struct bpf_insn *in)
{
	switch (bpf_class(in)) {
	case BPF_ALU:
	case BPF_ALU64:
		cpu->put_alu(writer, in);
		break;
	case BPF_LD:
		cpu->put_wide(writer, in);
		break;
	case BPF_LDX:
		cpu->put_load(writer, in);
		break;
	case BPF_ST:
		cpu->put_store(writer, in, true);
		break;
	case BPF_STX:
		if (bpf_mode(in) == BPF_ATOMIC)
			cpu->put_atomic(writer, in);
		else
			cpu->put_store(writer, in, false);
		break;
	default:
		if (bpf_is_exit(in))
			cpu->put_end(writer);
		else if (bpf_is_jump(in))
			cpu->put_jump(writer, in);
		else
			cpu->put_call(writer, in);
	}
}

static void put_all(struct bpf_writer *writer, const struct bpf_cpu *cpu)
{
	const struct bpf_compile *job = writer->job;

	writer->out.length = 0;
	cpu->put_begin(writer);
	for (writer->at = 0; writer->at < job->count; writer->at++) {
		writer->starts[writer->at] = (uint32_t)writer->out.length;
		put_instruction(writer, cpu, &job->insns[writer->at]);
		if (bpf_is_wide(&job->insns[writer->at]))
			writer->at++;
	}
}

/* The branch lies somewhere in its instruction's code, hence the margin. */
static void find_near_jumps(struct bpf_writer *writer, int64_t reach)
{
	const struct bpf_compile *job = writer->job;

	for (writer->at = 0; writer->at < job->count; writer->at++) {
		const struct bpf_insn *in = &job->insns[writer->at];

		if (bpf_is_jump(in)) {
			int64_t distance = (int64_t)bpf_jump_target(writer, in) - (int64_t)writer->starts[writer->at];

			writer->is_near[writer->at] = distance < reach && distance > BPF_CODE_PER_INSN - reach;
		}
		if (bpf_is_wide(in))
			writer->at++;
	}
}

static void find_used(struct bpf_writer *writer)
{
	for (uint32_t i = 0; i < writer->job->count; i++) {
		const struct bpf_insn *in = &writer->job->insns[i];

		writer->used |= (uint16_t)(1 << in->dst_reg | 1 << in->src_reg);
		i += bpf_is_wide(in);
	}
}

int bpf_write(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job, const struct bpf_cpu *cpu)
{
	struct bpf_writer writer = {.out = {.code = code, .size = room}, .job = job};

	if (job->count > BPF_COUNT_MAX)
		return -E2BIG;
	find_used(&writer);
	put_all(&writer, cpu);
	if (cpu->branch_reach) {
		find_near_jumps(&writer, cpu->branch_reach);
		put_all(&writer, cpu);
	}
	put_all(&writer, cpu);
	*length = writer.out.length;
	return writer.out.length <= room ? 0 : -E2BIG;
}
