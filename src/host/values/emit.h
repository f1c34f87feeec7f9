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
#include <calltap/abi/maps.h>
#include <calltap/abi/program.h>

#include "fetch.h"

#define CONTEXT BPF_REG_6
#define FAULTS	BPF_REG_7 /* a bit for each field that could not be read */
#define VALUE	BPF_REG_8 /* the value at hand */
#define BLOCK	400	  /* bytes of the fixed part at the most */
#define WORD_AT (-BLOCK - 8)

/* The function's id, 8 for each value, all structures, 4 for each text in them, and the word of faults. */
_Static_assert(8 + 8 * SPEC_FIELDS + SPEC_BYTES + 4 * (SPEC_ROWS - SPEC_FIELDS) + 4 <= BLOCK, "all fields have room");
_Static_assert(BLOCK % 8 == 0 && -WORD_AT <= (int)BPF_STACK_SIZE && BLOCK <= CALLTAP_PROGRAM_BYTES, "so has the block");

/* What does not fit is counted, and the program refused (code.c). */
static inline void put(struct fetch *out, struct bpf_insn in)
{
	if (out->count < FETCH_INSNS)
		out->insns[out->count] = in;
	out->count++;
}

static inline void put_alu_of(struct fetch *out, uint8_t operation, uint8_t to, uint8_t from)
{
	put(out, (struct bpf_insn){.code = (uint8_t)(BPF_ALU64 | BPF_X | operation), .dst_reg = to, .src_reg = from});
}

static inline void put_move(struct fetch *out, uint8_t to, uint8_t from)
{
	put_alu_of(out, BPF_MOV, to, from);
}

static inline void put_alu(struct fetch *out, uint8_t operation, uint8_t to, int32_t number)
{
	put(out, (struct bpf_insn){.code = (uint8_t)(BPF_ALU64 | BPF_K | operation), .dst_reg = to, .imm = number});
}

/* A number of 64 bits. */
static inline void put_wide(struct fetch *out, uint8_t to, uint64_t number)
{
	put(out, (struct bpf_insn){.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = to, .imm = (int32_t)number});
	put(out, (struct bpf_insn){.imm = (int32_t)(number >> 32)});
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

/* Load bytes of the stack that may lie anywhere, as members of packed structures do; other: a register that is lost. */
static inline void put_load_anywhere(struct fetch *out, uint8_t to, uint8_t other, int32_t at, uint32_t size)
{
	int32_t word = at & ~7, bits = 8 * (at - word), all = 8 * (int32_t)size;

	if (at % (int32_t)size == 0) {
		put_load(out, to, BPF_FRAME, (size_t)at, size);
		return;
	}
	put_load(out, to, BPF_FRAME, (size_t)word, 8);
	put_alu(out, BPF_RSH, to, bits);
	if (bits + all > 64) {
		put_load(out, other, BPF_FRAME, (size_t)word + 8, 8);
		put_alu(out, BPF_LSH, other, 64 - bits);
		put_alu_of(out, BPF_OR, to, other);
	}
	if (all < 64) {
		put_alu(out, BPF_LSH, to, 64 - all);
		put_alu(out, BPF_RSH, to, 64 - all);
	}
}

/* Store a register in the event's fixed part. */
static inline void put_store(struct fetch *out, uint32_t place, uint8_t from, uint32_t size)
{
	put(out, (struct bpf_insn){.code = BPF_STX | BPF_MEM | width(size),
				   .dst_reg = BPF_FRAME,
				   .src_reg = from,
				   .off = (int16_t)(place - BLOCK)});
}

/* An atomic operation of a register with the 8 bytes that lie so far behind the address in `at`. */
static inline void put_atomic(struct fetch *out, int32_t operation, uint8_t at, size_t offset, uint8_t with)
{
	put(out, (struct bpf_insn){.code = BPF_STX | BPF_ATOMIC | BPF_DW,
				   .dst_reg = at,
				   .src_reg = with,
				   .off = (int16_t)offset,
				   .imm = operation});
}

/* Jump if the comparison of two registers is true; where to is said by put_target(). */
static inline uint32_t put_compare(struct fetch *out, uint8_t operation, uint8_t left, uint8_t right)
{
	put(out, (struct bpf_insn){.code = (uint8_t)(BPF_JMP | BPF_X | operation), .dst_reg = left, .src_reg = right});
	return out->count - 1;
}

/* As above, with a number. */
static inline uint32_t put_test(struct fetch *out, uint8_t operation, uint8_t left, int32_t number)
{
	put(out, (struct bpf_insn){.code = (uint8_t)(BPF_JMP | BPF_K | operation), .dst_reg = left, .imm = number});
	return out->count - 1;
}

static inline uint32_t put_way(struct fetch *out)
{
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_JA});
	return out->count - 1;
}

/* The first argument of a helper that takes a map. */
static inline void put_map(struct fetch *out, enum calltap_map_number map)
{
	put(out, (struct bpf_insn){.code = BPF_LD | BPF_IMM | BPF_DW,
				   .dst_reg = BPF_REG_1,
				   .src_reg = BPF_PSEUDO_MAP_FD,
				   .imm = (int32_t)map});
	put(out, (struct bpf_insn){0});
}

/*
 * Look up the thread's value at the index in a register, which the word takes: r0 is its address.  Returns the jump
 * that is taken where there is none, for put_target().
 */
static inline uint32_t put_lookup(struct fetch *out, enum calltap_map_number map, uint8_t index)
{
	put(out, (struct bpf_insn){
			 .code = BPF_STX | BPF_MEM | BPF_W, .dst_reg = BPF_FRAME, .src_reg = index, .off = WORD_AT});
	put_map(out, map);
	put_move(out, BPF_REG_2, BPF_FRAME);
	put_add(out, BPF_REG_2, WORD_AT);
	put_call(out, CALLTAP_HELPER_LOOKUP);
	return put_test(out, BPF_JEQ, BPF_REG_0, 0);
}

/* The jump at that place leads to the next instruction. */
static inline void put_target(struct fetch *out, uint32_t jump)
{
	if (jump < FETCH_INSNS)
		out->insns[jump].off = (int16_t)(out->count - jump - 1);
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
	static const uint8_t callers[] = {[SPEC_PID] = CALLTAP_HELPER_PID,
					  [SPEC_TID] = CALLTAP_HELPER_TID,
					  [SPEC_TIME] = CALLTAP_HELPER_TIME,
					  [SPEC_STACK] = CALLTAP_HELPER_STACK};
	size_t at = offsetof(struct calltap_program_context, result);

	if (field->caller == SPEC_COMM)
		return; /* helpers that take it look for it themselves */
	if (field->caller == SPEC_CALLER) {
		put_load(out, VALUE, CONTEXT, offsetof(struct calltap_program_context, caller), 8);
		return;
	}
	if (field->caller) {
		if (field->caller == SPEC_STACK)
			put_move(out, BPF_REG_1, CONTEXT);
		put_call(out, callers[field->caller]);
		put_move(out, VALUE, BPF_REG_0);
		return;
	}
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
