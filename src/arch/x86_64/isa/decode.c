/*
 * x86-64: the decoder (see decode.h).  Pure.
 */
#include "decode.h"
#include "layout.h"

static enum isa_kind kind_of_one_byte(const struct x86_layout *layout)
{
	static const uint8_t of_ff[] = {ISA_PLAIN,	   ISA_PLAIN, ISA_CALL_INDIRECT, ISA_TRAP,
					ISA_JUMP_INDIRECT, ISA_TRAP,  ISA_PLAIN,	 ISA_TRAP};

	switch (layout->opcode) {
	case 0x8d: /* lea */
		return layout->pc_base ? ISA_ADDRESS : ISA_PLAIN;
	case 0xc2: /* ret */
	case 0xc3:
		return ISA_RETURN;
	case 0xe8:
		return ISA_CALL;
	case 0xe9:
	case 0xeb:
		return ISA_JUMP;
	case 0xff:
		return (enum isa_kind)of_ff[x86_reg_field(layout)];
	case 0xca: /* far returns */
	case 0xcb:
	case 0xcc: /* int */
	case 0xcd:
	case 0xcf: /* iret */
	case 0xf1:
	case 0xf4: /* hlt */
		return ISA_TRAP;
	case 0xc7:
		return layout->modrm == 0xf8 ? ISA_BRANCH : ISA_PLAIN; /* xbegin: where it goes on when it fails */
	default:
		break;
	}
	if ((layout->opcode & 0xf0) == 0x70 || (layout->opcode & 0xfc) == 0xe0) /* jcc; loop, jrcxz */
		return ISA_BRANCH;
	return ISA_PLAIN;
}

static enum isa_kind kind_of_two_byte(const struct x86_layout *layout)
{
	switch (layout->opcode) {
	case 0x01: /* uiret */
		return layout->modrm == 0xec && layout->rep ? ISA_TRAP : ISA_PLAIN;
	case 0x07: /* sysret */
	case 0x0b: /* ud2, ud1, ud0 */
	case 0xb9:
	case 0xff:
	case 0x34: /* sysenter, sysexit */
	case 0x35:
	case 0xaa: /* rsm */
		return ISA_TRAP;
	default:
		return (layout->opcode & 0xf0) == 0x80 ? ISA_BRANCH : ISA_PLAIN;
	}
}

static enum isa_kind kind_of(const struct x86_layout *layout)
{
	enum isa_kind kind = ISA_PLAIN;

	if (!layout->vector && layout->map == X86_MAP_ONE)
		kind = kind_of_one_byte(layout);
	else if (!layout->vector && layout->map == X86_MAP_0F)
		kind = kind_of_two_byte(layout);
	return kind == ISA_PLAIN && layout->pc_base ? ISA_MEMORY : kind;
}

int x86_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address)
{
	struct x86_layout layout;
	int length = x86_parse(&layout, code, size);
	const uint8_t *end = code + layout.length;
	uint64_t next = address + layout.length;

	if (length < 0)
		return length;
	*in = (struct isa_instruction){.kind = (uint8_t)kind_of(&layout), .length = layout.length};
	if (layout.pc_base) {
		in->has_target = true;
		in->target = next + (uint64_t)isa_signed(isa_load32(code + layout.displacement_at), 32);
	} else if (in->kind == ISA_JUMP || in->kind == ISA_BRANCH || in->kind == ISA_CALL) {
		in->has_target = true;
		in->target = next + (uint64_t)(layout.immediate_size == 1 ? isa_signed(end[-1], 8)
									  : isa_signed(isa_load32(end - 4), 32));
	}
	return length;
}
