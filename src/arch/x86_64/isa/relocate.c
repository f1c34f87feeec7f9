/*
 * x86-64: the relocator (see relocate.h).  Pure.
 */
#include "decode.h"
#include "encode.h"
#include "layout.h"
#include "relocate.h"

#define JMP_BYTES 5
#define JCC_BYTES 6

/* Jump to any target: beyond the reach of a jump, through a word behind it. */
static void put_jump(struct isa_out *out, uint64_t target)
{
	if (x86_reaches(out, JMP_BYTES, target)) {
		x86_put_jmp(out, target);
		return;
	}
	isa_put8(out, X86_NOTRACK);
	x86_put_jmp_slot(out, isa_out_here(out) + 6);
	isa_put64(out, target);
}

/* Push an address.  The word is stored in halves, for no register is free; the flags stay. */
static void put_push_address(struct isa_out *out, uint64_t address)
{
	x86_put_push(out, (uint32_t)address);
	if (isa_signed(address, 32) != (int64_t)address)
		x86_put_store_stack(out, 4, (uint32_t)(address >> 32));
}

/* A conditional jump that does not reach becomes its opposite, around a jump. */
static void put_jcc(struct isa_out *out, unsigned condition, uint64_t target)
{
	struct isa_out jump = {.address = isa_out_here(out) + 2};

	if (x86_reaches(out, JCC_BYTES, target)) {
		x86_put_jcc(out, condition, target);
		return;
	}
	put_jump(&jump, target);
	isa_put8(out, (uint8_t)(0x70 | (condition ^ 1)));
	isa_put8(out, (uint8_t)jump.length);
	put_jump(out, target);
}

/* loop and jrcxz have neither an opposite nor a longer form: they jump to a jump, the others around it. */
static void put_counted(struct isa_out *out, const struct x86_layout *layout, uint64_t target)
{
	struct isa_out jump = {.address = isa_out_here(out) + layout->addr32 + 4};

	put_jump(&jump, target);
	if (layout->addr32)
		isa_put8(out, 0x67);
	isa_put8(out, layout->opcode);
	isa_put8(out, 2);
	x86_put_jmp_short(out, isa_out_here(out) + 2 + jump.length);
	put_jump(out, target);
}

/* Put the instruction with a new displacement of 32 bits to the target; the displacement lies at offset `at`. */
static int put_with_displacement(struct isa_out *out, const uint8_t *code, size_t at, size_t length, uint64_t target)
{
	size_t tail = length - at;

	isa_put(out, code, at);
	if (!x86_reaches(out, tail, target))
		return -ERANGE;
	isa_put32(out, (uint32_t)x86_displacement(out, tail, target));
	isa_put(out, code + at + 4, length - at - 4);
	return 0;
}

/* Put a lea of an address; an address out of reach becomes a mov of the whole number. */
static int put_lea(struct isa_out *out, const struct x86_layout *layout, const uint8_t *code, uint64_t target)
{
	unsigned rex = (layout->rex & 8u) | isa_field(layout->rex, 2, 1); /* W, and R as B */

	if (x86_reaches(out, layout->length, target) || x86_is_data16(layout))
		return put_with_displacement(out, code, layout->displacement_at, layout->length, target);
	if (rex)
		isa_put8(out, (uint8_t)(0x40 | rex));
	isa_put8(out, (uint8_t)(0xb8 | x86_reg_field(layout)));
	if (layout->rex & 8)
		isa_put64(out, target);
	else
		isa_put32(out, (uint32_t)target);
	return 0;
}

static int put_branch(struct isa_out *out, const struct x86_layout *layout, const uint8_t *code, uint64_t target)
{
	if (layout->map == X86_MAP_ONE && layout->opcode == 0xc7) /* xbegin */
		return put_with_displacement(out, code, layout->length - 4u, layout->length, target);
	if (layout->map == X86_MAP_ONE && layout->opcode >= 0xe0)
		put_counted(out, layout, target);
	else
		put_jcc(out, layout->opcode & 15, target);
	return 0;
}

/* Put ModRM, SIB and displacement, with 8 added to the displacement from the stack pointer. */
static int put_deeper(struct isa_out *out, const struct x86_layout *layout, const uint8_t *code)
{
	const uint8_t *at = code + layout->displacement_at;
	int64_t displacement = layout->displacement_size == 4	? isa_signed(isa_load32(at), 32)
			       : layout->displacement_size == 1 ? isa_signed(*at, 8)
								: 0;
	bool is_short;

	displacement += 8;
	is_short = isa_fits(displacement, 8);
	if (!isa_fits(displacement, 32) || layout->addr32)
		return -ENOTSUP;
	isa_put8(out, (uint8_t)(is_short ? 0x64 : 0xa4)); /* jmp, with SIB and 8 or 32 bits */
	isa_put8(out, code[layout->modrm_at + 1]);
	if (is_short)
		isa_put8(out, (uint8_t)displacement);
	else
		isa_put32(out, (uint32_t)displacement);
	return 0;
}

/* True if the stack pointer is the base of the memory operand. */
static bool is_on_stack(const struct x86_layout *layout, const uint8_t *code)
{
	return !x86_is_register(layout) && (layout->modrm & 7) == 4 && (code[layout->modrm_at + 1] & 7) == 4 &&
	       !(layout->rex & 1);
}

/* call *operand: the return address is pushed, then jmp *operand. */
static int put_indirect_call(struct isa_out *out, const struct x86_layout *layout, const uint8_t *code,
			     const struct isa_instruction *in, uint64_t next)
{
	size_t modrm_at = layout->modrm_at;
	uint8_t jump[X86_LENGTH_MAX];

	if (x86_is_register(layout) && (layout->modrm & 7) == 4 &&
	    !(layout->rex & 1)) /* a call of the address in the stack pointer */
		return -ENOTSUP;
	put_push_address(out, next);
	for (size_t i = 0; i < in->length; i++)
		jump[i] = code[i];
	jump[modrm_at] = (uint8_t)((layout->modrm & ~(7u << 3)) | 4u << 3);
	if (in->has_target)
		return put_with_displacement(out, jump, layout->displacement_at, in->length, in->target);
	if (!is_on_stack(layout, code)) {
		isa_put(out, jump, in->length);
		return 0;
	}
	isa_put(out, jump, modrm_at);
	return put_deeper(out, layout, code);
}

static int put_moved(struct isa_out *out, const struct isa_instruction *in, const struct isa_source *source)
{
	const uint8_t *code = source->code;
	uint64_t next = source->from + in->length;
	struct x86_layout layout;

	x86_parse(&layout, code, source->size);
	switch (in->kind) {
	case ISA_ADDRESS:
		return put_lea(out, &layout, code, in->target);
	case ISA_JUMP:
		put_jump(out, in->target);
		return 0;
	case ISA_BRANCH:
		return put_branch(out, &layout, code, in->target);
	case ISA_CALL:
		put_push_address(out, next);
		put_jump(out, in->target);
		return 0;
	case ISA_CALL_INDIRECT:
		return put_indirect_call(out, &layout, code, in, next);
	default:
		if (in->has_target)
			return put_with_displacement(out, code, layout.displacement_at, in->length, in->target);
		isa_put(out, code, in->length);
		return 0;
	}
}

int x86_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from)
{
	return isa_relocate(out, &(struct isa_source){code, size, from, 0}, x86_decode, put_moved);
}
