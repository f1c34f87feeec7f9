/*
 * From a SPEC to a program (fetch.h).  Context: host.
 *
 * The program makes the event's fixed part on its stack, below r10, and below that has a word for what it reads.
 * r6 is the context, r7 collects faults, r8 is the value at hand.
 */
#include <stddef.h>
#include <string.h>

#include <calltap/abi/program.h>

#include "fetch.h"

#define CONTEXT BPF_REG_6
#define FAULTS	BPF_REG_7
#define VALUE	BPF_REG_8
#define BLOCK	144 /* bytes of the fixed part at the most: 8, and 16 fields of 8 */

_Static_assert(FETCH_FIRST + 8 * SPEC_FIELDS <= BLOCK, "all fields have room");

static const struct bpf_helper helpers[CALLTAP_HELPERS] = {
	[CALLTAP_HELPER_READ] = {.name = "read",
				 .arguments = {BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_TEXT] = {.name = "text",
				 .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_VALUE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_WRITE] = {.name = "write",
				  .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
};

const struct bpf_machine fetch_machine = {
	.context_size = sizeof(struct calltap_program_context),
	.helpers = helpers,
	.helper_count = CALLTAP_HELPERS,
};

static void put(struct fetch *out, struct bpf_insn in)
{
	out->insns[out->count++] = in;
}

static void put_move(struct fetch *out, uint8_t to, uint8_t from)
{
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = to, .src_reg = from});
}

static void put_alu(struct fetch *out, uint8_t operation, uint8_t to, int32_t number)
{
	put(out, (struct bpf_insn){.code = (uint8_t)(BPF_ALU64 | BPF_K | operation), .dst_reg = to, .imm = number});
}

static void put_number(struct fetch *out, uint8_t to, int32_t number)
{
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = to, .imm = number});
}

static void put_add(struct fetch *out, uint8_t to, int32_t number)
{
	if (number)
		put_alu(out, BPF_ADD, to, number);
}

static void put_call(struct fetch *out, enum calltap_helper helper)
{
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = helper});
}

static uint8_t width(uint32_t size)
{
	return size == 1 ? BPF_B : size == 2 ? BPF_H : size == 4 ? BPF_W : BPF_DW;
}

static void put_load(struct fetch *out, uint8_t to, uint8_t base, size_t offset, uint32_t size)
{
	put(out,
	    (struct bpf_insn){
		    .code = BPF_LDX | BPF_MEM | width(size), .dst_reg = to, .src_reg = base, .off = (int16_t)offset});
}

/* Store a register in the event's fixed part. */
static void put_store(struct fetch *out, uint32_t place, uint8_t from, uint32_t size)
{
	put(out, (struct bpf_insn){.code = BPF_STX | BPF_MEM | width(size),
				   .dst_reg = BPF_FRAME,
				   .src_reg = from,
				   .off = (int16_t)(place - BLOCK)});
}

/*
 * Read `size` bytes at the address VALUE + offset into VALUE.  What is not there is 0, and the helper's result
 * negative: its sign is the field's bit.  No jump: the verifier would follow all ways through all fields.
 */
static void put_read(struct fetch *out, int32_t offset, uint32_t size, uint32_t index)
{
	put_add(out, VALUE, offset);
	put_move(out, BPF_REG_1, BPF_FRAME);
	put_add(out, BPF_REG_1, -BLOCK - 8);
	put_number(out, BPF_REG_2, (int32_t)size);
	put_move(out, BPF_REG_3, VALUE);
	put_call(out, CALLTAP_HELPER_READ);
	put_alu(out, BPF_RSH, BPF_REG_0, 63);
	put_alu(out, BPF_LSH, BPF_REG_0, (int32_t)index);
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_OR | BPF_X, .dst_reg = FAULTS, .src_reg = BPF_REG_0});
	put_load(out, VALUE, BPF_FRAME, (size_t) - (BLOCK + 8), size);
}

static bool is_on_stack(const struct spec_field *field, uint32_t registers)
{
	return field->argument > registers;
}

static void put_base(struct fetch *out, const struct spec_field *field, uint32_t registers)
{
	size_t at = offsetof(struct calltap_program_context, result);

	if (is_on_stack(field, registers))
		at = offsetof(struct calltap_program_context, stack);
	else if (field->argument)
		at = offsetof(struct calltap_program_context, arguments) + 8 * (size_t)(field->argument - 1);
	put_load(out, VALUE, CONTEXT, at, 8);
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
	bool text = field->type == SPEC_STRING;
	uint8_t loads = field->offset_count;

	put_base(out, field, registers);
	if (is_on_stack(field, registers))
		put_read(out, 8 * (int32_t)(field->argument - registers - 1), loads || text ? 8 : field->size, index);
	for (uint8_t i = 0; i + 1 < loads; i++)
		put_read(out, field->offsets[i], 8, index);
	/* The outermost offset of a string leads to the text itself. */
	if (loads && text)
		put_add(out, VALUE, field->offsets[loads - 1]);
	else if (loads)
		put_read(out, field->offsets[loads - 1], field->size, index);
	if (text)
		put_text(out, field);
	put_store(out, out->places[index], VALUE, text ? 4 : field->size);
}

static void lay_out(struct fetch *out, const struct spec *spec)
{
	out->size = FETCH_FIRST;
	for (uint32_t i = 0; i < spec->count; i++) {
		uint32_t size = spec->fields[i].type == SPEC_STRING ? 4 : spec->fields[i].size;

		out->size = (out->size + size - 1) / size * size;
		out->places[i] = out->size;
		out->size += size;
	}
}

void fetch_compile(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	*out = (struct fetch){0};
	lay_out(out, spec);
	put_move(out, CONTEXT, BPF_REG_1);
	put_number(out, FAULTS, 0);
	for (uint32_t at = 0; at < out->size; at += 8)
		put(out, (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_DW,
					   .dst_reg = BPF_FRAME,
					   .off = (int16_t)(at - BLOCK)});
	for (uint32_t i = 0; i < spec->count; i++)
		put_field(out, &spec->fields[i], i, registers);
	put_load(out, VALUE, CONTEXT, offsetof(struct calltap_program_context, function), 8);
	put_store(out, 0, VALUE, 4);
	put_store(out, FETCH_FAULTS, FAULTS, 4);
	put_move(out, BPF_REG_1, CONTEXT);
	put_move(out, BPF_REG_2, BPF_FRAME);
	put_add(out, BPF_REG_2, -BLOCK);
	put_number(out, BPF_REG_3, (int32_t)out->size);
	put_call(out, CALLTAP_HELPER_WRITE);
	put_number(out, BPF_REG_0, 1);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
}
