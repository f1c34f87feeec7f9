/*
 * From a SPEC to a program (fetch.h).  Context: host.
 */
#include <stddef.h>

#include "decide.h"
#include "emit.h"
#include "fetch.h"

static const struct bpf_helper helpers[CALLTAP_HELPERS] = {
	[CALLTAP_HELPER_READ] = {.name = "read",
				 .arguments = {BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_TEXT] = {.name = "text",
				 .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_VALUE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_WRITE] = {.name = "write",
				  .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_MATCH] = {.name = "match",
				  .arguments = {BPF_ARGUMENT_VALUE, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_VECTOR] = {.name = "vector", .arguments = {BPF_ARGUMENT_VALUE}},
};

const struct bpf_machine fetch_machine = {
	.context_size = sizeof(struct calltap_program_context),
	.helpers = helpers,
	.helper_count = CALLTAP_HELPERS,
};

/* The field that is being fetched. */
struct fetched {
	struct fetch *out;
	uint32_t index;
};

/*
 * Read `size` bytes at the address VALUE + offset into VALUE.  What is not there is 0, and the helper's result
 * negative: its sign is the field's bit.  No jump: the verifier would follow all ways through all fields.
 */
static void put_read(void *ctx, int32_t offset, uint32_t size)
{
	const struct fetched *field = ctx;
	struct fetch *out = field->out;

	put_read_call(out, offset, size);
	put_alu(out, BPF_RSH, BPF_REG_0, 63);
	put_alu(out, BPF_LSH, BPF_REG_0, (int32_t)field->index);
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_OR | BPF_X, .dst_reg = FAULTS, .src_reg = BPF_REG_0});
	put_load(out, VALUE, BPF_FRAME, (size_t)WORD_AT, size);
}

static void put_text(struct fetch *out, const struct spec_field *field)
{
	put_move(out, BPF_REG_1, CONTEXT);
	put_move(out, BPF_REG_2, VALUE);
	put_number(out, BPF_REG_3, field->size);
	put_call(out, CALLTAP_HELPER_TEXT);
	put_move(out, VALUE, BPF_REG_0);
}

static void put_field(struct fetch *out, const struct spec_field *field, uint32_t index, uint32_t registers)
{
	struct fetched fetched = {out, index};
	bool text = field->type == SPEC_STRING;

	put_fetch(out, field, registers, put_read, &fetched);
	if (text)
		put_text(out, field);
	put_store(out, out->places[index], VALUE, text ? 4 : field->size);
}

static void lay_out(struct fetch *out, const struct spec *spec)
{
	out->size = FETCH_FIRST;
	for (uint32_t i = 0; i < spec->count; i++) {
		uint32_t size = spec->fields[i].type == SPEC_STRING ? 4 : spec->fields[i].size;

		if (spec->fields[i].type == SPEC_MISSING)
			continue;
		out->size = (out->size + size - 1) / size * size;
		out->places[i] = out->size;
		out->size += size;
	}
}

static void put_event(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	for (uint32_t at = 0; at < out->size; at += 8)
		put(out, (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_DW,
					   .dst_reg = BPF_FRAME,
					   .off = (int16_t)(at - BLOCK)});
	for (uint32_t i = 0; i < spec->count; i++)
		if (spec->fields[i].type != SPEC_MISSING)
			put_field(out, &spec->fields[i], i, registers);
	put_load(out, VALUE, CONTEXT, offsetof(struct calltap_program_context, function), 8);
	put_store(out, 0, VALUE, 4);
	put_store(out, FETCH_FAULTS, FAULTS, 4);
	put_move(out, BPF_REG_1, CONTEXT);
	put_move(out, BPF_REG_2, BPF_FRAME);
	put_add(out, BPF_REG_2, -BLOCK);
	put_number(out, BPF_REG_3, (int32_t)out->size);
	put_call(out, CALLTAP_HELPER_WRITE);
}

void fetch_compile_if(struct fetch *out, const struct spec *spec, uint32_t registers, const struct condition *condition,
		      enum calltap_verdict otherwise)
{
	*out = (struct fetch){0};
	put_move(out, CONTEXT, BPF_REG_1);
	put_number(out, FAULTS, 0);
	if (condition)
		decide_compile(out, condition, registers, (int32_t)otherwise);
	if (spec) {
		lay_out(out, spec);
		put_event(out, spec, registers);
	}
	put_number(out, BPF_REG_0, CALLTAP_VERDICT_RECORD);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
}

void fetch_compile(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	fetch_compile_if(out, spec, registers, NULL, CALLTAP_VERDICT_RECORD);
}
