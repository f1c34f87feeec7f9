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

/* The sign of helper READ's result is the field's bit. */
static void put_fault(struct fetch *out, uint32_t index)
{
	put_alu(out, BPF_RSH, BPF_REG_0, 63);
	put_alu(out, BPF_LSH, BPF_REG_0, (int32_t)index);
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_OR | BPF_X, .dst_reg = FAULTS, .src_reg = BPF_REG_0});
}

/*
 * Read `size` bytes at the address VALUE + offset into VALUE.  What is not there is 0.  No jump: the verifier would
 * follow all ways through all fields.
 */
static void put_read(void *ctx, int32_t offset, uint32_t size)
{
	const struct fetched *field = ctx;
	struct fetch *out = field->out;

	put_read_call(out, offset, size);
	put_fault(out, field->index);
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

/* Where the structure's bytes are in the event: behind its address. */
static uint32_t bytes_at(const struct fetch *out, const struct spec *spec, uint32_t group)
{
	return out->places[group] + (spec->fields[group].at_address ? 8 : 0);
}

/* Read the bytes of a structure at the address VALUE + offset into the event. */
static void put_bytes(struct fetch *out, uint32_t place, uint32_t size, int32_t offset, uint32_t index)
{
	put_add(out, VALUE, offset);
	put_move(out, BPF_REG_1, BPF_FRAME);
	put_add(out, BPF_REG_1, (int32_t)place - BLOCK);
	put_number(out, BPF_REG_2, (int32_t)size);
	put_move(out, BPF_REG_3, VALUE);
	put_call(out, CALLTAP_HELPER_READ);
	put_fault(out, index);
}

static void put_group(struct fetch *out, const struct spec *spec, uint32_t index, uint32_t registers)
{
	const struct spec_field *field = &spec->fields[index];
	const struct spec_field second = {.argument = field->second_argument, .vector = field->second_vector};
	struct fetched fetched = {out, index};
	uint32_t bytes = bytes_at(out, spec, index);

	if (field->at_address) {
		struct spec_field address = *field;

		address.type = SPEC_HEX;
		address.size = 8;
		put_fetch(out, &address, registers, put_read, &fetched);
		put_store(out, out->places[index], VALUE, 8);
		put_bytes(out, bytes, field->size, 0, index);
		return;
	}
	put_base(out, field, registers);
	if (is_on_stack(field, registers)) {
		put_bytes(out, bytes, field->size, 8 * (int32_t)(field->argument - registers - 1), index);
		return;
	}
	put_store(out, bytes, VALUE, 8);
	if (field->size <= 8)
		return;
	put_base(out, &second, registers);
	put_store(out, bytes + 8, VALUE, 8);
}

static void put_field(struct fetch *out, const struct spec *spec, uint32_t index, uint32_t registers)
{
	const struct spec_field *field = &spec->fields[index];
	struct fetched fetched = {out, index};
	bool text = field->type == SPEC_STRING;

	if (field->type == SPEC_MISSING || (field->within && !text))
		return;
	if (field->type == SPEC_GROUP) {
		put_group(out, spec, index, registers);
		return;
	}
	if (field->within)
		put_load(out, VALUE, BPF_FRAME, bytes_at(out, spec, field->within - 1u) + field->at - (size_t)BLOCK, 8);
	else
		put_fetch(out, field, registers, put_read, &fetched);
	if (text)
		put_text(out, field);
	put_store(out, out->places[index], VALUE, text ? 4 : field->size);
}

static uint32_t take_room(struct fetch *out, uint32_t size, uint32_t align)
{
	uint32_t at = (out->size + align - 1) / align * align;

	out->size = at + size;
	return at;
}

static void lay_out(struct fetch *out, const struct spec *spec)
{
	out->size = FETCH_FIRST;
	for (uint32_t i = 0; i < spec->count; i++) {
		const struct spec_field *field = &spec->fields[i];

		if (field->type == SPEC_MISSING)
			continue;
		if (field->type == SPEC_GROUP)
			out->places[i] = take_room(out, (field->at_address ? 8 : 0) + (field->size + 7u) / 8 * 8, 8);
		else if (field->type == SPEC_STRING)
			out->places[i] = take_room(out, 4, 4);
		else if (field->within)
			out->places[i] = bytes_at(out, spec, field->within - 1u) + field->at;
		else
			out->places[i] = take_room(out, field->size, field->size);
	}
}

static void put_event(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	for (uint32_t at = 0; at < out->size; at += 8)
		put(out, (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_DW,
					   .dst_reg = BPF_FRAME,
					   .off = (int16_t)(at - BLOCK)});
	for (uint32_t i = 0; i < spec->count; i++)
		put_field(out, spec, i, registers);
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
