/*
 * Following a function's first instructions (prologue.h).
 * Source: Intel SDM, volume 2; System V ABI for AMD64, 3.2.3 (registers) and figure 3.36 (DWARF's numbers).
 *
 * Context: host.  Pure.
 */
#include <string.h>

#include <arch/x86_64/isa/layout.h>
#include <arch/x86_64/isa/nops.h>

#include "prologue.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9 };

#define NO_BASE 16u /* an address that is not told by a register and a number alone */

/* An instruction. */
struct step {
	struct prologue *prologue;
	struct x86_layout layout;
	const uint8_t *code;
	unsigned reg, rm; /* registers that ModRM names; rm: if is_register */
	bool is_register;
	bool on_frame; /* the memory is the stack's: */
	int64_t at;
	bool begun; /* something else than the frame's making came before */
};

static int64_t number_at(const uint8_t *at, unsigned size)
{
	int32_t word;
	int16_t half;

	switch (size) {
	case 1:
		return (int8_t)at[0];
	case 2:
		memcpy(&half, at, sizeof(half));
		return half;
	case 4:
		memcpy(&word, at, sizeof(word));
		return word;
	default:
		return 0;
	}
}

static int64_t immediate_of(const struct step *step)
{
	const struct x86_layout *layout = &step->layout;

	return number_at(step->code + layout->length - layout->immediate_size, layout->immediate_size);
}

/* The register that the memory's address is counted from. */
static unsigned base_of(const struct step *step)
{
	const struct x86_layout *layout = &step->layout;
	unsigned mode = layout->modrm >> 6, rm = layout->modrm & 7, high = (layout->rex & 1) * 8u;
	uint8_t scale;

	if (layout->pc_base || layout->addr32)
		return NO_BASE;
	if (rm != 4)
		return mode == 0 && rm == 5 ? NO_BASE : rm | high;
	scale = step->code[layout->modrm_at + 1];
	if ((scale >> 3 & 7) != 4 || layout->rex & 2 || (mode == 0 && (scale & 7) == 5))
		return NO_BASE;
	return (scale & 7) | high;
}

static void find_operands(struct step *step)
{
	const struct x86_layout *layout = &step->layout;
	const struct origin *base;
	unsigned number;

	step->reg = x86_reg_field(layout) | (layout->rex & 4) * 2u;
	step->is_register = layout->has_modrm && x86_is_register(layout);
	step->rm = (layout->modrm & 7) | (layout->rex & 1) * 8u;
	step->on_frame = false;
	if (!layout->has_modrm || step->is_register)
		return;
	number = base_of(step);
	base = number == NO_BASE ? NULL : &step->prologue->registers[number];
	step->on_frame = base && base->of == ORIGIN_FRAME;
	if (step->on_frame)
		step->at = base->offset + number_at(step->code + layout->displacement_at, layout->displacement_size);
}

/* Bytes of an operand that is no vector. */
static uint8_t operand_size(const struct step *step, bool byte)
{
	return byte ? 1 : step->layout.rex & 8 ? 8 : step->layout.data16 ? 2 : 4;
}

/* ah, ch, dh and bh. */
static bool is_high_byte(const struct step *step, unsigned number, uint8_t size)
{
	return size == 1 && !step->layout.rex && number >= 4 && number < 8;
}

static struct origin narrowed(struct origin value, uint8_t size)
{
	if (value.of == ORIGIN_FRAME && size < 8)
		return (struct origin){ORIGIN_UNKNOWN, 0, 0, false, 0};
	if (value.width > size)
		value.width = size;
	return value;
}

/* What the bytes hold now. */
static struct origin load(const struct prologue *prologue, int64_t at, uint8_t size)
{
	for (uint32_t i = prologue->count; i-- > 0;) {
		const struct prologue_store *store = &prologue->stores[i];

		if (store->at >= at + size || at >= store->at + store->size)
			continue;
		if (store->at == at && store->size >= size)
			return narrowed(store->value, size);
		return (struct origin){.of = ORIGIN_UNKNOWN};
	}
	if (at < 8)
		return (struct origin){.of = ORIGIN_UNKNOWN};
	return (struct origin){.of = ORIGIN_STACK, .width = size, .offset = at - 8};
}

struct origin prologue_first(const struct prologue *prologue, int64_t at, uint32_t size)
{
	for (uint32_t i = 0; i < prologue->count; i++) {
		const struct prologue_store *store = &prologue->stores[i];

		if (store->at >= at + size || at >= store->at + store->size)
			continue;
		return store->at == at ? narrowed(store->value, store->size) : (struct origin){.of = ORIGIN_UNKNOWN};
	}
	if (at < 8)
		return (struct origin){.of = ORIGIN_UNKNOWN};
	return (struct origin){.of = ORIGIN_STACK, .width = (uint8_t)(size < 255 ? size : 255), .offset = at - 8};
}

/* False: there is no room. */
static bool store(struct prologue *prologue, int64_t at, uint8_t size, struct origin value)
{
	if (prologue->count == PROLOGUE_STORES)
		return false;
	prologue->stores[prologue->count++] = (struct prologue_store){at, size, narrowed(value, size)};
	return true;
}

/* A store elsewhere: into what an argument leads to, which is no frame that is being made. */
static bool is_elsewhere(const struct step *step)
{
	unsigned number = base_of(step);
	const struct origin *base = number == NO_BASE ? NULL : &step->prologue->registers[number];

	return base && base->width == 8 && (base->of == ORIGIN_INTEGER || base->of == ORIGIN_STACK);
}

static struct origin register_value(const struct step *step, unsigned number, uint8_t size)
{
	if (is_high_byte(step, number, size))
		return (struct origin){.of = ORIGIN_UNKNOWN};
	return narrowed(step->prologue->registers[number], size);
}

/* False: the stack pointer, which few instructions may change. */
static bool set_register(struct step *step, unsigned number, uint8_t size, struct origin value)
{
	if (is_high_byte(step, number, size))
		number -= 4, value.of = ORIGIN_UNKNOWN;
	if (number == RSP)
		return false;
	step->prologue->registers[number] = value;
	return true;
}

static bool forget(struct step *step, unsigned number, uint8_t size)
{
	return set_register(step, number, size, (struct origin){.of = ORIGIN_UNKNOWN});
}

/* The stack pointer goes down, before anything else has been done. */
static bool lower_stack(struct step *step, int64_t bytes)
{
	if (step->begun || bytes < 0 || bytes > INT32_MAX)
		return false;
	step->prologue->registers[RSP].offset -= bytes;
	return true;
}

static bool do_push(struct step *step)
{
	unsigned number = (step->layout.opcode & 7) | (step->layout.rex & 1) * 8u;

	if (step->layout.data16 || !lower_stack(step, 8))
		return false;
	/* LLVM makes room for a word so, before rax has anything: the word gets its first value later. */
	if (number == RAX)
		return true;
	return store(step->prologue, step->prologue->registers[RSP].offset, 8, step->prologue->registers[number]);
}

/* mov between registers and memory, from `reg` on or to it. */
static bool do_move(struct step *step, bool to_reg, uint8_t size)
{
	unsigned from = to_reg ? step->rm : step->reg, to = to_reg ? step->reg : step->rm;

	if (step->is_register)
		return set_register(step, to, size, register_value(step, from, size));
	if (to_reg)
		return set_register(step, to, size,
				    step->on_frame ? load(step->prologue, step->at, size)
						   : (struct origin){.of = ORIGIN_UNKNOWN});
	if (step->on_frame)
		return store(step->prologue, step->at, size, register_value(step, from, size));
	return is_elsewhere(step);
}

/* What becomes of memory that gets something else. */
static bool do_spoil(struct step *step, uint8_t size)
{
	if (step->is_register)
		return forget(step, step->rm, size);
	return step->on_frame ? store(step->prologue, step->at, size, (struct origin){.of = ORIGIN_UNKNOWN})
			      : is_elsewhere(step);
}

/* add, or, and, sub, ... of a number. */
static bool do_immediate(struct step *step, uint8_t size)
{
	unsigned operation = x86_reg_field(&step->layout);
	struct origin value;

	if (operation == 7)
		return true; /* cmp */
	if (step->is_register && step->rm == RSP)
		return operation == 5 && size == 8 && lower_stack(step, immediate_of(step));
	if (!step->is_register || operation != 4 || immediate_of(step) != 1 || size != 1)
		return do_spoil(step, size);
	value = register_value(step, step->rm, size);
	value.is_bit = true;
	return set_register(step, step->rm, size, value);
}

static bool do_lea(struct step *step)
{
	struct origin value = {.of = ORIGIN_UNKNOWN};

	if (step->on_frame && step->layout.rex & 8)
		value = (struct origin){.of = ORIGIN_FRAME, .width = 8, .offset = step->at};
	return set_register(step, step->reg, 8, value);
}

/* add, or, and, sub, ... between registers and memory. */
static bool do_arithmetic(struct step *step, uint8_t size)
{
	uint8_t opcode = step->layout.opcode;

	if (opcode >= 0x38)
		return true; /* cmp */
	return opcode & 2 ? forget(step, step->reg, size) : do_spoil(step, size);
}

static bool do_one_byte(struct step *step)
{
	uint8_t opcode = step->layout.opcode, size = operand_size(step, !(opcode & 1));

	if (opcode >= 0x50 && opcode <= 0x57)
		return do_push(step);
	if (opcode >= 0xb8 && opcode <= 0xbf)
		return forget(step, (opcode & 7) | (step->layout.rex & 1) * 8u, 8);
	if (opcode < 0x40 && (opcode & 7) < 4)
		return do_arithmetic(step, size);
	switch (opcode) {
	case 0x88:
	case 0x89:
		return do_move(step, false, size);
	case 0x8a:
	case 0x8b:
		return do_move(step, true, size);
	case 0x80:
	case 0x81:
	case 0x83:
		return do_immediate(step, size);
	case 0x24: /* and $number, %al */
		step->layout.modrm = 0xe0;
		step->is_register = true;
		step->rm = RAX;
		return do_immediate(step, 1);
	case 0x8d:
		return do_lea(step);
	case 0xc0:
	case 0xc1:
	case 0xd0:
	case 0xd1:
	case 0xc6:
	case 0xc7:
		return do_spoil(step, size);
	default: /* test changes nothing */
		return opcode == 0x84 || opcode == 0x85 || opcode == 0xa8 || opcode == 0xa9;
	}
}

static struct origin vector_value(const struct step *step, unsigned number, uint8_t size)
{
	return narrowed(step->prologue->vectors[number], size);
}

/* movss, movsd, movups and movaps. */
static bool do_vector(struct step *step, bool to_reg, uint8_t size)
{
	struct origin value = {.of = ORIGIN_UNKNOWN};

	if (to_reg) {
		if (step->is_register)
			value = vector_value(step, step->rm, size);
		else if (step->on_frame)
			value = load(step->prologue, step->at, size);
		step->prologue->vectors[step->reg] = value;
		return true;
	}
	value = vector_value(step, step->reg, size);
	if (step->is_register) {
		step->prologue->vectors[step->rm] = value;
		return true;
	}
	return step->on_frame ? store(step->prologue, step->at, size, value) : is_elsewhere(step);
}

static bool do_0f(struct step *step)
{
	const struct x86_layout *layout = &step->layout;
	uint8_t size = layout->rep ? 4 : layout->repne ? 8 : 16, from;

	switch (layout->opcode) {
	case 0x10:
	case 0x11:
		return do_vector(step, layout->opcode == 0x10, size);
	case 0x28:
	case 0x29:
		return do_vector(step, layout->opcode == 0x28, 16);
	case 0x57: /* xorps */
		step->prologue->vectors[step->reg].of = ORIGIN_UNKNOWN;
		return true;
	case 0xb6:
	case 0xb7:
	case 0xbe:
	case 0xbf:
		from = layout->opcode & 1 ? 2 : 1;
		if (step->is_register)
			return set_register(step, step->reg, 8, register_value(step, step->rm, from));
		return do_move(step, true, from);
	default:
		return layout->opcode == 0x1f || layout->opcode == 0x1e; /* no-ops, endbr64 */
	}
}

/* Does the instruction make the frame, as the first ones of a function do? */
static bool makes_frame(const struct step *step)
{
	const struct x86_layout *layout = &step->layout;
	uint8_t opcode = layout->opcode;

	if (layout->map == X86_MAP_0F)
		return opcode == 0x1e || opcode == 0x1f;
	if (opcode == 0x90 || (opcode >= 0x50 && opcode <= 0x57))
		return true;
	if (opcode == 0x89 && step->is_register && step->rm == RBP && step->reg == RSP)
		return true;
	/* Large frames are touched page by page. */
	return ((opcode == 0x81 || opcode == 0x83) && step->is_register && step->rm == RSP &&
		x86_reg_field(layout) == 5) ||
	       (opcode == 0xc7 && step->on_frame && step->at == step->prologue->registers[RSP].offset);
}

static bool take(struct step *step)
{
	const struct x86_layout *layout = &step->layout;

	find_operands(step);
	if (layout->vector || layout->lock)
		return false;
	if (!step->begun && !makes_frame(step)) {
		step->begun = true;
		step->prologue->has_frame = true;
		step->prologue->frame = step->prologue->registers[RSP].offset;
	}
	if (layout->map == X86_MAP_0F)
		return do_0f(step);
	return layout->map == X86_MAP_ONE && (layout->opcode == 0x90 || do_one_byte(step));
}

void prologue_follow(struct prologue *out, const uint8_t *code, size_t size, uint64_t address, uint64_t until)
{
	static const uint8_t integers[] = {RDI, RSI, RDX, RCX, R8, R9};
	struct step step = {.prologue = out};
	size_t at = 0;

	*out = (struct prologue){.end = address};
	for (unsigned i = 0; i < sizeof(integers); i++)
		out->registers[integers[i]] = (struct origin){.of = ORIGIN_INTEGER, .number = (uint8_t)i, .width = 8};
	for (uint8_t i = 0; i < 8; i++)
		out->vectors[i] = (struct origin){.of = ORIGIN_VECTOR, .number = i, .width = 16};
	out->registers[RSP] = (struct origin){.of = ORIGIN_FRAME, .width = 8};
	while (at < size && address + at < until) {
		step.code = code + at;
		if (x86_parse(&step.layout, step.code, size - at) <= 0 || !take(&step))
			return;
		at += step.layout.length;
		out->end = address + at;
	}
}

struct origin prologue_register(const struct prologue *prologue, uint64_t dwarf_number)
{
	static const uint8_t numbers[] = {RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP};

	if (dwarf_number < 8)
		return prologue->registers[numbers[dwarf_number]];
	if (dwarf_number < 16)
		return prologue->registers[dwarf_number];
	if (dwarf_number >= 17 && dwarf_number < 33)
		return prologue->vectors[dwarf_number - 17];
	return (struct origin){.of = ORIGIN_UNKNOWN};
}
