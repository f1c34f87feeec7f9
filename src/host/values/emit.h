/*
 * Instructions of the programs that fetch values and decide on calls, one function each.
 *
 * The program makes the event's fixed part on its stack, below r10; the word below that (WORD_AT) takes what it reads.
 * Callers: fetch.c, decide.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_EMIT_H
#define HOST_VALUES_EMIT_H

#include <stdbool.h>
#include <stddef.h>

#include <bpf/isa.h>
#include <calltap/abi/program.h>

#include "fetch.h"

#define CONTEXT BPF_REG_6
#define FAULTS	BPF_REG_7 /* a bit for each field that could not be read */
#define VALUE	BPF_REG_8 /* the value at hand */
#define BLOCK	392	  /* bytes of the fixed part at the most */
#define WORD_AT (-BLOCK - 8)

/* 8 for each value, all structures, and 4 for each text in them. */
_Static_assert(FETCH_FIRST + 8 * SPEC_FIELDS + SPEC_BYTES + 4 * (SPEC_ROWS - SPEC_FIELDS) <= BLOCK,
	       "all fields have room");
_Static_assert(BLOCK % 8 == 0 && -WORD_AT <= (int)BPF_STACK_SIZE && BLOCK <= CALLTAP_PROGRAM_BYTES, "so has the block");

/* What does not fit is counted, and the program refused (code.c). */
static inline void put(struct fetch *out, struct bpf_insn in)
{
	if (out->count < FETCH_INSNS)
		out->insns[out->count] = in;
	out->count++;
}

static inline void put_move(struct fetch *out, uint8_t to, uint8_t from)
{
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = to, .src_reg = from});
}

static inline void put_alu(struct fetch *out, uint8_t operation, uint8_t to, int32_t number)
{
	put(out, (struct bpf_insn){.code = (uint8_t)(BPF_ALU64 | BPF_K | operation), .dst_reg = to, .imm = number});
}

static inline void put_number(struct fetch *out, uint8_t to, int32_t number)
{
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = to, .imm = number});
}

static inline void put_add(struct fetch *out, uint8_t to, int32_t number)
{
	if (number)
		put_alu(out, BPF_ADD, to, number);
}

static inline void put_call(struct fetch *out, enum calltap_helper helper)
{
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = helper});
}

static inline uint8_t width(uint32_t size)
{
	return size == 1 ? BPF_B : size == 2 ? BPF_H : size == 4 ? BPF_W : BPF_DW;
}

static inline void put_load(struct fetch *out, uint8_t to, uint8_t base, size_t offset, uint32_t size)
{
	put(out,
	    (struct bpf_insn){
		    .code = BPF_LDX | BPF_MEM | width(size), .dst_reg = to, .src_reg = base, .off = (int16_t)offset});
}

/* Store a register in the event's fixed part. */
static inline void put_store(struct fetch *out, uint32_t place, uint8_t from, uint32_t size)
{
	put(out, (struct bpf_insn){.code = BPF_STX | BPF_MEM | width(size),
				   .dst_reg = BPF_FRAME,
				   .src_reg = from,
				   .off = (int16_t)(place - BLOCK)});
}

/* Read `size` bytes at the address VALUE + offset into the word; the helper's result is in r0. */
static inline void put_read_call(struct fetch *out, int32_t offset, uint32_t size)
{
	put_add(out, VALUE, offset);
	put_move(out, BPF_REG_1, BPF_FRAME);
	put_add(out, BPF_REG_1, WORD_AT);
	put_number(out, BPF_REG_2, (int32_t)size);
	put_move(out, BPF_REG_3, VALUE);
	put_call(out, CALLTAP_HELPER_READ);
}

static inline bool is_on_stack(const struct spec_field *field, uint32_t registers)
{
	return field->argument > registers && field->argument != SPEC_SECOND;
}

static inline void put_base(struct fetch *out, const struct spec_field *field, uint32_t registers)
{
	size_t at = offsetof(struct calltap_program_context, result);

	if (field->vector) {
		put_number(out, BPF_REG_1, field->vector - 1);
		put_call(out, CALLTAP_HELPER_VECTOR);
		put_move(out, VALUE, BPF_REG_0);
		return;
	}
	if (is_on_stack(field, registers))
		at = offsetof(struct calltap_program_context, stack);
	else if (field->argument == SPEC_SECOND)
		at = offsetof(struct calltap_program_context, second);
	else if (field->argument)
		at = offsetof(struct calltap_program_context, arguments) + 8 * (size_t)(field->argument - 1);
	put_load(out, VALUE, CONTEXT, at, 8);
}

/*
 * Get a field, or the address of its text, into VALUE.  read: puts the instructions that read `size` bytes at VALUE +
 * offset into VALUE; ctx is its own.
 */
static inline void put_fetch(struct fetch *out, const struct spec_field *field, uint32_t registers,
			     void (*read)(void *ctx, int32_t offset, uint32_t size), void *ctx)
{
	bool text = field->type == SPEC_STRING;
	uint8_t loads = field->offset_count;

	put_base(out, field, registers);
	if (is_on_stack(field, registers))
		read(ctx, 8 * (int32_t)(field->argument - registers - 1), loads || text ? 8 : field->size);
	for (uint8_t i = 0; i + 1 < loads; i++)
		read(ctx, field->offsets[i], 8);
	/* The outermost offset of a string leads to the text itself. */
	if (loads && text)
		put_add(out, VALUE, field->offsets[loads - 1]);
	else if (loads)
		read(ctx, field->offsets[loads - 1], field->size);
}

#endif
