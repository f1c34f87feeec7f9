/*
 * From a SPEC to a program (fetch.h).  Context: host.
 */
#include <stddef.h>

#include <calltap/abi/maps.h>
#include <calltap/abi/record.h>

#include "bucket.h"
#include "decide.h"
#include "emit.h"
#include "fetch.h"
#include "sum.h"
#include "view.h"

static const struct bpf_helper helpers[CALLTAP_HELPERS] = {
	[CALLTAP_HELPER_READ] = {.name = "read",
				 .arguments = {BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_TEXT] = {.name = "text",
				 .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_VALUE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_WRITE] = {.name = "write",
				  .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_MATCH] = {.name = "match",
				  .arguments = {BPF_ARGUMENT_VALUE, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_BYTES] = {.name = "bytes",
				  .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_VALUE, BPF_ARGUMENT_VALUE,
						BPF_ARGUMENT_VALUE, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_MATCH_BYTES] = {.name = "match_bytes",
					.arguments = {BPF_ARGUMENT_VALUE, BPF_ARGUMENT_VALUE, BPF_ARGUMENT_READ,
						      BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_KEEP] = {.name = "keep", .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_TELL] = {.name = "tell", .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_VECTOR] = {.name = "vector", .arguments = {BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_COUNT] = {.name = "count",
				  .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_TIME] = {.name = "time"},
	[CALLTAP_HELPER_PID] = {.name = "pid"},
	[CALLTAP_HELPER_TID] = {.name = "tid"},
	[CALLTAP_HELPER_COMM] = {.name = "comm", .arguments = {BPF_ARGUMENT_CONTEXT}},
	[CALLTAP_HELPER_STACK] = {.name = "stack", .arguments = {BPF_ARGUMENT_CONTEXT}},
	[CALLTAP_HELPER_FIND] = {.name = "find",
				 .arguments = {BPF_ARGUMENT_CONTEXT, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_LOOKUP] = {.name = "lookup",
				   .arguments = {BPF_ARGUMENT_MAP, BPF_ARGUMENT_KEY},
				   .result = BPF_RESULT_ENTRY},
	[CALLTAP_HELPER_UPDATE] = {.name = "update",
				   .arguments = {BPF_ARGUMENT_MAP, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE,
						 BPF_ARGUMENT_VALUE}},
	[CALLTAP_HELPER_DELETE] = {.name = "delete",
				   .arguments = {BPF_ARGUMENT_MAP, BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE,
						 BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE}},
	[CALLTAP_HELPER_MATCH_COMM] = {.name = "match_comm", .arguments = {BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}},
};

static const struct bpf_map maps[CALLTAP_MAPS] = {
	[CALLTAP_MAP_RANGES] = {.key_size = sizeof(uint32_t), .value_size = sizeof(uint64_t)},
	[CALLTAP_MAP_SUMS] = {.key_size = sizeof(uint32_t), .value_size = sizeof(struct calltap_map_sum)},
	[CALLTAP_MAP_SPANS] = {.key_size = sizeof(uint64_t), .value_size = sizeof(uint64_t)},
};

const struct bpf_machine fetch_machine = {
	.context_size = sizeof(struct calltap_program_context),
	.helpers = helpers,
	.helper_count = CALLTAP_HELPERS,
	.maps = maps,
	.map_count = CALLTAP_MAPS,
};

const struct bpf_machine fetch_plain_machine = {.context_size = sizeof(struct fetch_plain_context)};

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
	put_alu_of(out, BPF_OR, FAULTS, BPF_REG_0);
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
	if (field->caller == SPEC_COMM) {
		put_call(out, CALLTAP_HELPER_COMM);
		put_move(out, VALUE, BPF_REG_0);
		return;
	}
	put_move(out, BPF_REG_2, VALUE);
	put_number(out, BPF_REG_3, field->size);
	put_call(out, CALLTAP_HELPER_TEXT);
	put_move(out, VALUE, BPF_REG_0);
}

/* As put_fault(), but that an object whose address is 0 is none, and no fault. */
static void put_object_fault(void *ctx)
{
	const struct fetched *field = ctx;
	struct fetch *out = field->out;

	put_move(out, BPF_REG_1, VIEW_OF);
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_NEG, .dst_reg = BPF_REG_1});
	put_alu_of(out, BPF_OR, BPF_REG_1, VIEW_OF);
	put_alu_of(out, BPF_AND, BPF_REG_0, BPF_REG_1);
	put_fault(out, field->index);
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

/* VALUE has the first part of a structure that is in registers, and perhaps on the stack. */
static void put_parts(struct fetch *out, const struct spec_field *field, uint32_t place, uint32_t index,
		      uint32_t registers)
{
	struct spec_field part = {.argument = field->second_argument, .vector = field->second_vector};
	uint32_t step = field->step ? field->step : 8, end = (field->size + step - 1) / step * step;

	put_store(out, place, VALUE, step);
	for (uint32_t at = step; at < end; at += step, part.vector++) {
		put_base(out, &part, registers);
		if (is_on_stack(&part, registers))
			put_bytes(out, place + at, end - at, 0, index);
		else
			put_store(out, place + at, VALUE, step);
	}
}

static void put_group(struct fetch *out, const struct spec *spec, uint32_t index, uint32_t registers)
{
	const struct spec_field *field = &spec->fields[index];
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
	put_parts(out, field, bytes, index, registers);
}

/* The address of a member's object, as far as one is known. */
static void put_member_of(struct fetch *out, const struct spec *spec, const struct spec_field *field,
			  uint32_t registers)
{
	const struct spec_field *group = &spec->fields[field->within - 1u];

	put_number(out, VIEW_OF, 1);
	if (group->at_address) {
		put_load(out, VIEW_OF, BPF_FRAME, out->places[field->within - 1u] - (size_t)BLOCK, 8);
		put_add(out, VIEW_OF, field->at);
	} else if (is_on_stack(group, registers)) {
		put_base(out, group, registers);
		put_move(out, VIEW_OF, VALUE);
		put_add(out, VIEW_OF, 8 * (int32_t)(group->argument - registers - 1) + field->at);
	}
}

/* VALUE, VIEW_SIZE, VIEW_OF: a text, of which helper BYTES puts so many bytes behind the event. */
static void put_place(struct fetch *out, uint32_t place, uint32_t most)
{
	put_move(out, BPF_REG_1, CONTEXT);
	put_move(out, BPF_REG_2, VALUE);
	put_number(out, BPF_REG_4, (int32_t)most);
	put_move(out, BPF_REG_5, VIEW_OF);
	put_call(out, CALLTAP_HELPER_BYTES);
	put_store(out, place, BPF_REG_0, 4);
}

static void put_frame_word(struct fetch *out, int16_t at, uint8_t reg)
{
	put(out,
	    (struct bpf_insn){.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .src_reg = reg, .off = at});
}

/* Note whether a part of a list's text was read. */
static void put_text_fault(void *ctx)
{
	struct fetch *out = ctx;

	put_alu(out, BPF_ARSH, BPF_REG_0, 63);
	put_load(out, BPF_REG_1, BPF_FRAME, (size_t)LIST_FAULTS, 8);
	put_alu_of(out, BPF_OR, BPF_REG_1, BPF_REG_0);
	put_frame_word(out, LIST_FAULTS, BPF_REG_1);
}

/*
 * The first texts of a list of such, which is at LIST_AT.  One that is not in the list has the address 0, so nothing is
 * read: jumps would make the verifier follow all ways.  A text of which not all is there has a size that no text has,
 * and is a fault of its own.
 */
static void put_texts(struct fetch *out, const struct spec_field *field, uint32_t place)
{
	const struct view_ways ways = {.check = put_text_fault, .ctx = out};

	for (uint32_t i = 0; i < SPEC_TEXTS; i++) {
		int32_t at = (int32_t)(i * field->view.element);

		put_load(out, BPF_REG_1, BPF_FRAME, (size_t)LIST_BYTES, 8);
		put_number(out, VALUE, at);
		put_alu_of(out, BPF_SUB, VALUE, BPF_REG_1);
		put_alu(out, BPF_ARSH, VALUE, 63);
		put_load(out, BPF_REG_1, BPF_FRAME, (size_t)LIST_AT, 8);
		put_add(out, BPF_REG_1, at);
		put_alu_of(out, BPF_AND, VALUE, BPF_REG_1);
		put_number(out, BPF_REG_0, 0);
		put_frame_word(out, LIST_FAULTS, BPF_REG_0);
		view_put_object(out, &field->text, &ways);
		view_put_at(out, &field->text, VIEW_AT, &ways);
		put_load(out, BPF_REG_1, BPF_FRAME, (size_t)LIST_FAULTS, 8);
		put_alu_of(out, BPF_OR, VIEW_SIZE, BPF_REG_1);
		put_place(out, place + 4 * i, SPEC_EACH);
	}
}

static void put_view(struct fetch *out, const struct spec *spec, uint32_t index, uint32_t registers)
{
	const struct spec_field *field = &spec->fields[index];
	struct fetched fetched = {out, index};
	const struct view_ways ways = {put_object_fault, put_read, &fetched};

	if (field->within) {
		put_member_of(out, spec, field, registers);
		view_put_at(out, &field->view, (int32_t)bytes_at(out, spec, field->within - 1u) + field->at - BLOCK,
			    &ways);
	} else {
		view_put(out, field, registers, &ways);
	}
	if (field->text.size) {
		put_frame_word(out, LIST_AT, VALUE);
		put_frame_word(out, LIST_BYTES, VIEW_SIZE);
	}
	put_place(out, out->places[index], field->size);
	if (field->text.size)
		put_texts(out, field, out->places[index] + 4);
}

/* The bytes that lie where the offsets lead. */
static void put_bytes_there(struct fetch *out, const struct spec *spec, uint32_t index, uint32_t registers)
{
	struct spec_field address = spec->fields[index];
	struct fetched fetched = {out, index};

	address.type = SPEC_STRING; /* its last offset leads to them */
	put_fetch(out, &address, registers, put_read, &fetched);
	put_bytes(out, out->places[index], spec->fields[index].size, 0, index);
}

static void put_field(struct fetch *out, const struct spec *spec, uint32_t index, uint32_t registers)
{
	const struct spec_field *field = &spec->fields[index];
	struct fetched fetched = {out, index};
	bool text = field->type == SPEC_STRING;

	if (field->type == SPEC_VIEW) {
		put_view(out, spec, index, registers);
		return;
	}
	if (field->type == SPEC_MISSING || (field->within && !text))
		return;
	if (field->type == SPEC_LONG_DOUBLE && field->offset_count) {
		put_bytes_there(out, spec, index, registers);
		return;
	}
	if (field->type == SPEC_GROUP || field->type == SPEC_LONG_DOUBLE) {
		put_group(out, spec, index, registers);
		return;
	}
	if (field->within)
		put_load_anywhere(out, VALUE, BPF_REG_1,
				  (int32_t)bytes_at(out, spec, field->within - 1u) + field->at - BLOCK, 8);
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

/* Are there numbers alone, none of them in a structure? */
static bool is_of_numbers(const struct spec *spec)
{
	for (uint32_t i = 0; i < spec->count; i++)
		if (spec->fields[i].type == SPEC_STRING || spec->fields[i].type == SPEC_VIEW ||
		    spec->fields[i].type == SPEC_GROUP || spec->fields[i].type == SPEC_LONG_DOUBLE ||
		    spec->fields[i].within)
			return false;
	return true;
}

/* Is the field read from memory, which may be a fault? */
static bool field_may_fault(const struct spec_field *field, uint32_t registers)
{
	return field->type != SPEC_MISSING && (field->offset_count || field->type == SPEC_GROUP ||
					       field->type == SPEC_VIEW || is_on_stack(field, registers));
}

static bool may_fault(const struct spec *spec, uint32_t registers)
{
	for (uint32_t i = 0; i < spec->count; i++)
		if (field_may_fault(&spec->fields[i], registers))
			return true;
	return false;
}

static void lay_out(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	out->size = FETCH_FIRST;
	for (uint32_t i = 0; i < spec->count; i++) {
		const struct spec_field *field = &spec->fields[i];

		if (field->type == SPEC_MISSING)
			continue;
		if (field->type == SPEC_GROUP)
			out->places[i] = take_room(out, (field->at_address ? 8 : 0) + (field->size + 7u) / 8 * 8, 8);
		else if (field->type == SPEC_STRING || field->type == SPEC_VIEW)
			out->places[i] = take_room(out, 4 + (field->text.size ? 4 * SPEC_TEXTS : 0), 4);
		else if (field->within)
			out->places[i] = bytes_at(out, spec, field->within - 1u) + field->at;
		else if (field->type == SPEC_LONG_DOUBLE)
			out->places[i] = take_room(out, 16, 8);
		else
			out->places[i] = take_room(out, field->size, field->size);
	}
	if (may_fault(spec, registers))
		out->faults = take_room(out, 4, 4);
}

/* The helper gets the event. */
static void put_end(struct fetch *out, enum calltap_helper take)
{
	put_load(out, VALUE, CONTEXT, offsetof(struct calltap_program_context, function), 8);
	put_store(out, 0, VALUE, 4);
	if (out->faults)
		put_store(out, out->faults, FAULTS, 4);
	put_move(out, BPF_REG_1, CONTEXT);
	put_move(out, BPF_REG_2, BPF_FRAME);
	put_add(out, BPF_REG_2, -BLOCK);
	put_number(out, BPF_REG_3, (int32_t)out->size);
	put_call(out, take);
}

/* All of the fixed part is 0. */
static void put_zeros(struct fetch *out)
{
	for (uint32_t at = 0; at < out->size; at += 8)
		put(out, (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_DW,
					   .dst_reg = BPF_FRAME,
					   .off = (int16_t)(at - BLOCK)});
}

/* Make the event as bytes, which the helper gets. */
static void put_bytes_event(struct fetch *out, const struct spec *spec, uint32_t registers, enum calltap_helper take)
{
	put_zeros(out);
	for (uint32_t i = 0; i < spec->count; i++)
		put_field(out, spec, i, registers);
	put_end(out, take);
}

#define WORD_BYTES ((uint32_t)CALLTAP_EVENT_WORD_BYTES)

/* The words of an event, one behind the other. */
struct word {
	uint32_t number;     /* of the word that is being made */
	uint8_t reg, memory; /* registers: the word, and the end of the stack */
	bool begun;	     /* it has something already */
};

/* The word is whole.  over: bits of the next one may be in it. */
static void put_word(struct fetch *out, struct word *word, bool over)
{
	if (!word->begun)
		put_number(out, word->reg, 0);
	if (over) {
		put_alu(out, BPF_LSH, word->reg, 8);
		put_alu(out, BPF_RSH, word->reg, 8);
	}
	put(out, (struct bpf_insn){.code = BPF_STX | BPF_MEM | BPF_DW,
				   .dst_reg = word->memory,
				   .src_reg = word->reg,
				   .off = (int16_t)(8 * word->number - CALLTAP_PROGRAM_WORDS_AT)});
	word->number++;
	word->begun = false;
}

/* The upper bits of a number, of which so many bytes are meant, become 0. */
static void put_clear(struct fetch *out, uint8_t reg, uint32_t size)
{
	if (size == 4)
		put(out, (struct bpf_insn){.code = BPF_ALU | BPF_MOV | BPF_X, .dst_reg = reg, .src_reg = reg});
	else if (size < 4)
		put_alu(out, BPF_AND, reg, size == 1 ? 0xff : 0xffff);
}

/* Put a register of so many bytes, all others 0, at a place of the event that is behind all before. */
static void put_in_words(struct fetch *out, struct word *word, uint8_t reg, uint32_t place, uint32_t size)
{
	uint32_t at = place % WORD_BYTES;

	while (word->number < place / WORD_BYTES)
		put_word(out, word, false);
	if (!word->begun) {
		put_move(out, word->reg, reg);
		if (at)
			put_alu(out, BPF_LSH, word->reg, (int32_t)(8 * at));
	} else {
		put_move(out, BPF_REG_0, reg);
		put_alu(out, BPF_LSH, BPF_REG_0, (int32_t)(8 * at));
		put_alu_of(out, BPF_OR, word->reg, BPF_REG_0);
	}
	word->begun = true;
	if (at + size < WORD_BYTES)
		return;
	put_word(out, word, at + size > WORD_BYTES);
	if (at + size == WORD_BYTES)
		return;
	put_move(out, word->reg, reg);
	put_alu(out, BPF_RSH, word->reg, (int32_t)(8 * (WORD_BYTES - at)));
	word->begun = true;
}

/* Leave the event as words on the program's stack. */
static void put_words_event(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	struct word word = {.reg = BPF_REG_9, .memory = BPF_FRAME};

	put_load(out, VALUE, CONTEXT, offsetof(struct calltap_program_context, function), 8);
	put_in_words(out, &word, VALUE, 0, 4);
	for (uint32_t i = 0; i < spec->count; i++) {
		const struct spec_field *field = &spec->fields[i];
		struct fetched fetched = {out, i};

		if (field->type == SPEC_MISSING)
			continue;
		put_fetch(out, field, registers, put_read, &fetched);
		if (!field->offset_count && !is_on_stack(field, registers))
			put_clear(out, VALUE, field->size);
		put_in_words(out, &word, VALUE, out->places[i], field->size);
	}
	if (out->faults)
		put_in_words(out, &word, FAULTS, out->faults, 4);
	if (word.begun)
		put_word(out, &word, false);
	out->words = word.number;
}

/* Are all values in registers for integers, so that no helper is called?  So far the agent runs such programs on x86-64
 * alone. */
static bool is_plain(const struct spec *spec, uint32_t registers)
{
	for (uint32_t i = 0; i < spec->count; i++)
		if ((spec->fields[i].vector || spec->fields[i].caller) && spec->fields[i].type != SPEC_MISSING)
			return false;
	return registers == FETCH_REGISTERS_X86_64 && is_of_numbers(spec) && !may_fault(spec, registers);
}

/* Where the context of a plain program has a field. */
static size_t plain_place(const struct spec_field *field)
{
	static const uint8_t arguments[FETCH_REGISTERS_X86_64] = {14, 13, 12, 11, 9, 8}; /* calltap/registers.h */
	enum { RESULT = 10, SECOND = 12 };

	if (field->argument == SPEC_SECOND)
		return 8 * SECOND;
	return 8 * (field->argument ? arguments[field->argument - 1u] : RESULT);
}

/* As put_words_event(), in registers that calls do not keep, for there are none: so nobody has to save any. */
static void put_plain_event(struct fetch *out, const struct spec *spec)
{
	enum { END = BPF_REG_2, ID = BPF_REG_3, HEAD = BPF_REG_4, NUMBER = BPF_REG_5 };
	struct word word = {.reg = ID, .memory = END, .begun = true};

	put_move(out, END, BPF_FRAME);
	put_load(out, ID, BPF_REG_1, offsetof(struct fetch_plain_context, function), 8);
	put_load(out, HEAD, BPF_REG_1, offsetof(struct fetch_plain_context, head), 8);
	for (uint32_t i = 0; i < spec->count; i++) {
		const struct spec_field *field = &spec->fields[i];

		if (field->type == SPEC_MISSING)
			continue;
		put_load(out, NUMBER, BPF_REG_1, plain_place(field), field->size);
		put_in_words(out, &word, NUMBER, out->places[i], field->size);
	}
	if (word.begun)
		put_word(out, &word, false);
	put(out, (struct bpf_insn){.code = BPF_STX | BPF_MEM | BPF_DW,
				   .dst_reg = END,
				   .src_reg = HEAD,
				   .off = -(int16_t)CALLTAP_PROGRAM_WORDS_AT - 8});
	put_number(out, BPF_REG_0, 0);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
	out->words = word.number;
	out->flags = CALLTAP_PROGRAM_PLAIN;
}

void fetch_compile_asking(struct fetch *out, const struct spec *spec, uint32_t registers,
			  const struct condition *condition, enum calltap_verdict otherwise, bool result,
			  const struct fetch_ask *asks, uint32_t ask_count)
{
	*out = (struct fetch){0};
	if (spec && !condition && !ask_count && is_plain(spec, registers)) {
		lay_out(out, spec, registers);
		put_plain_event(out, spec);
		return;
	}
	put_move(out, CONTEXT, BPF_REG_1);
	put_number(out, FAULTS, 0);
	for (uint32_t i = 0; i < ask_count; i++)
		decide_ask(out, asks[i].condition, registers, (int32_t)asks[i].number, result);
	if (condition)
		decide_compile(out, condition, registers, (int32_t)otherwise, result);
	if (spec) {
		lay_out(out, spec, registers);
		if (is_of_numbers(spec))
			put_words_event(out, spec, registers);
		else
			put_bytes_event(out, spec, registers, CALLTAP_HELPER_WRITE);
	}
	put_number(out, BPF_REG_0, CALLTAP_VERDICT_RECORD);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
}

void fetch_compile_if(struct fetch *out, const struct spec *spec, uint32_t registers, const struct condition *condition,
		      enum calltap_verdict otherwise, bool result)
{
	fetch_compile_asking(out, spec, registers, condition, otherwise, result, NULL, 0);
}

void fetch_compile(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	fetch_compile_if(out, spec, registers, NULL, CALLTAP_VERDICT_RECORD, false);
}

/* VALUE has a field's bytes, and gets 64 bits of it. */
static void put_whole(struct fetch *out, const struct spec_field *field, bool has_sign)
{
	int32_t bits = 64 - 8 * field->size;

	if (!bits)
		return;
	put_alu(out, BPF_LSH, VALUE, bits);
	put_alu(out, has_sign ? BPF_ARSH : BPF_RSH, VALUE, bits);
}

/* Get a number alone into VALUE, with 64 bits; FAULTS: whether it could not be read. */
static void put_number_of(struct fetch *out, const struct spec_field *field, uint32_t registers)
{
	struct fetched fetched = {out, 0};

	put_number(out, FAULTS, 0);
	put_fetch(out, field, registers, put_read, &fetched);
	put_whole(out, field, bucket_has_sign(field));
}

/* Find the key; without room for it the number is 0. */
static void put_find(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	lay_out(out, spec, registers);
	put_bytes_event(out, spec, registers, CALLTAP_HELPER_FIND);
	put_move(out, SUM_NUMBER, BPF_REG_0);
}

/* Add up the number that comes with the key. */
static void put_sum(struct fetch *out, const struct spec *spec, uint32_t registers)
{
	const struct spec_field *field = &spec->fields[spec->count];
	uint32_t none = sum_put_test(out);

	put_number_of(out, field, registers);
	sum_put(out, bucket_has_sign(field), field_may_fault(field, registers));
	put_target(out, none);
}

/* The return's program gets the key's number: there is none to wait for without room. */
static void put_keep_key(struct fetch *out)
{
	uint32_t none = sum_put_test(out);

	put_move(out, BPF_REG_1, CONTEXT);
	put_move(out, BPF_REG_2, SUM_NUMBER);
	put_call(out, CALLTAP_HELPER_KEEP);
	put_number(out, BPF_REG_0, CALLTAP_VERDICT_AWAIT);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
	put_target(out, none);
}

/* Bytes of the program's stack, as distances from its end. */
enum { SPAN_KEY = -8, SPAN_PLACE = -16 };

static void put_stack_store(struct fetch *out, int16_t at, uint8_t from)
{
	put(out,
	    (struct bpf_insn){.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .src_reg = from, .off = at});
}

static void put_stack_address(struct fetch *out, uint8_t to, int32_t at)
{
	put_move(out, to, BPF_FRAME);
	put_add(out, to, at);
}

/* The first three arguments, and the call. */
static void put_span_call(struct fetch *out, enum calltap_helper helper)
{
	put_map(out, CALLTAP_MAP_SPANS);
	put_stack_address(out, BPF_REG_2, SPAN_KEY);
	put_number(out, BPF_REG_3, 8);
	put_call(out, helper);
}

/* End the span whose key is on the stack; the time of the end is in r9. */
static void put_span_end(struct fetch *out, const struct buckets *buckets)
{
	uint32_t none, later;

	put_stack_address(out, BPF_REG_4, SPAN_PLACE);
	put_number(out, BPF_REG_5, 8);
	put_span_call(out, CALLTAP_HELPER_DELETE);
	none = put_test(out, BPF_JNE, BPF_REG_0, 0);
	put_load(out, BPF_REG_1, BPF_FRAME, (size_t)SPAN_PLACE, 8);
	put_move(out, VALUE, BPF_REG_9);
	put_alu_of(out, BPF_SUB, VALUE, BPF_REG_1);
	later = put_test(out, BPF_JSGE, VALUE, 0);
	put_number(out, VALUE, 0); /* two CPUs' clocks, or a beginning that was noted after its end was called */
	put_target(out, later);
	put_stack_store(out, SPAN_PLACE, VALUE);
	bucket_put(out, buckets, false, false);
	put_load(out, VALUE, BPF_FRAME, (size_t)SPAN_PLACE, 8);
	put_number(out, SUM_NUMBER, 1);
	sum_put(out, false, false);
	put_target(out, none);
}

/*
 * Begin or end a span.  The time of a beginning is read last, and that of an end first: so what the program does itself
 * is not in it.
 */
static void put_span(struct fetch *out, const struct spec *spec, uint32_t registers, const struct buckets *buckets)
{
	const struct spec_field *field = &spec->fields[0];
	bool may_fault = field_may_fault(field, registers);
	uint32_t none = 0;

	if (spec->span == SPEC_ENDS) {
		put_call(out, CALLTAP_HELPER_TIME);
		put_move(out, BPF_REG_9, BPF_REG_0);
	}
	put_number_of(out, field, registers);
	if (may_fault) {
		none = put_test(out, BPF_JEQ, FAULTS, 0);
		put_number(out, VALUE, -1);
		bucket_put(out, buckets, false, true);
		put_number(out, BPF_REG_0, CALLTAP_VERDICT_LEAVE_OUT);
		put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
		put_target(out, none);
	}
	put_stack_store(out, SPAN_KEY, VALUE);
	if (spec->span == SPEC_ENDS) {
		put_span_end(out, buckets);
		return;
	}
	put_call(out, CALLTAP_HELPER_TIME);
	put_move(out, BPF_REG_4, BPF_REG_0);
	put_span_call(out, CALLTAP_HELPER_UPDATE);
}

/* Count, at the call or at the return. */
static void put_count(struct fetch *out, const struct spec *spec, uint32_t registers, const struct buckets *buckets)
{
	if (spec->span) {
		put_span(out, spec, registers, buckets);
	} else if (buckets->kind && spec->count) {
		const struct spec_field *field = &spec->fields[0];

		put_number_of(out, field, registers);
		bucket_put(out, buckets, bucket_has_sign(field), field_may_fault(field, registers));
	} else if (spec->sums) {
		put_find(out, spec, registers);
		put_sum(out, spec, registers);
	} else {
		lay_out(out, spec, registers);
		put_bytes_event(out, spec, registers, CALLTAP_HELPER_COUNT);
	}
}

void fetch_compile_count(struct fetch *out, enum fetch_part part, const struct spec *spec, uint32_t registers,
			 const struct condition *condition, const struct buckets *buckets)
{
	bool result = part == FETCH_COUNT_RESULT || part == FETCH_SUM_RESULT;

	*out = (struct fetch){0};
	put_move(out, CONTEXT, BPF_REG_1);
	put_number(out, FAULTS, 0);
	if (condition)
		decide_compile(out, condition, registers, CALLTAP_VERDICT_LEAVE_OUT, result);
	if (part == FETCH_COUNT || part == FETCH_COUNT_RESULT) {
		put_count(out, spec, registers, buckets);
	} else if (part == FETCH_KEEP_KEY) {
		put_find(out, spec, registers);
		put_keep_key(out);
	} else if (part == FETCH_SUM_RESULT) {
		put_load(out, SUM_NUMBER, CONTEXT, offsetof(struct calltap_program_context, kept), 8);
		put_sum(out, spec, registers);
		out->flags |= CALLTAP_PROGRAM_KEPT;
	}
	put_number(out, BPF_REG_0, part == FETCH_AWAIT ? CALLTAP_VERDICT_AWAIT : CALLTAP_VERDICT_LEAVE_OUT);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
}
