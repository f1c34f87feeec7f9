/*
 * The disassembler, which writes an instruction as text; see text.h.  Pure.
 */
#include <stdio.h>

#include "isa.h"
#include "text.h"

static const char *const alu_signs[] = {"+", "-", "*", "/", "|", "&", "<<", ">>", "", "%", "^", "", "s>>", ""};
static const char *const jump_signs[] = {"", "==", ">", ">=", "&", "!=", "s>", "s>=", "", "", "<", "<=", "s<", "s<="};

static void write_alu(char *text, const struct bpf_insn *in)
{
	char letter = bpf_class(in) == BPF_ALU64 ? 'r' : 'w';
	uint8_t operation = bpf_operation(in);
	const char *sign = alu_signs[operation >> 4];

	if (operation == BPF_END) {
		const char *order = letter == 'r' ? "bswap" : bpf_has_register(in) ? "be" : "le";

		snprintf(text, BPF_TEXT_MAX, "r%u = %s%d r%u", in->dst_reg, order, in->imm, in->dst_reg);
	} else if (operation == BPF_NEG) {
		snprintf(text, BPF_TEXT_MAX, "%c%u = -%c%u", letter, in->dst_reg, letter, in->dst_reg);
	} else if (operation == BPF_MOV && in->off) {
		snprintf(text, BPF_TEXT_MAX, "%c%u = (s%d)%c%u", letter, in->dst_reg, in->off, letter, in->src_reg);
	} else {
		const char *how = (operation == BPF_DIV || operation == BPF_MOD) && in->off ? "s" : "";

		if (bpf_has_register(in))
			snprintf(text, BPF_TEXT_MAX, "%c%u %s%s= %c%u", letter, in->dst_reg, how, sign, letter,
				 in->src_reg);
		else
			snprintf(text, BPF_TEXT_MAX, "%c%u %s%s= %d", letter, in->dst_reg, how, sign, in->imm);
	}
}

static void write_jump(char *text, const struct bpf_insn *in)
{
	char letter = bpf_class(in) == BPF_JMP ? 'r' : 'w';

	if (bpf_operation(in) == BPF_EXIT)
		snprintf(text, BPF_TEXT_MAX, "exit");
	else if (bpf_operation(in) == BPF_CALL)
		snprintf(text, BPF_TEXT_MAX, "call %d", in->imm);
	else if (bpf_operation(in) == BPF_JA)
		snprintf(text, BPF_TEXT_MAX, "%s %+d", letter == 'r' ? "goto" : "gotol", bpf_jump_distance(in));
	else if (bpf_has_register(in))
		snprintf(text, BPF_TEXT_MAX, "if %c%u %s %c%u goto %+d", letter, in->dst_reg,
			 jump_signs[bpf_operation(in) >> 4], letter, in->src_reg, in->off);
	else
		snprintf(text, BPF_TEXT_MAX, "if %c%u %s %d goto %+d", letter, in->dst_reg,
			 jump_signs[bpf_operation(in) >> 4], in->imm, in->off);
}

static void write_place(char place[32], uint8_t base, int16_t off)
{
	snprintf(place, 32, "r%u %c %d", base, off < 0 ? '-' : '+', off < 0 ? -off : off);
}

static void write_atomic(char *text, const struct bpf_insn *in)
{
	static const struct {
		int32_t operation;
		const char *name, *sign;
	} names[] = {{BPF_ADD, "add", "+"}, {BPF_OR, "or", "|"}, {BPF_AND, "and", "&"}, {BPF_XOR, "xor", "^"}};
	unsigned bits = bpf_access_size(in) * 8;
	char place[32];

	write_place(place, in->dst_reg, in->off);
	if (in->imm == BPF_XCHG)
		snprintf(text, BPF_TEXT_MAX, "r%u = xchg_%u(%s, r%u)", in->src_reg, bits, place, in->src_reg);
	else if (in->imm == BPF_CMPXCHG)
		snprintf(text, BPF_TEXT_MAX, "r0 = cmpxchg_%u(%s, r0, r%u)", bits, place, in->src_reg);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (in->imm == names[i].operation)
			snprintf(text, BPF_TEXT_MAX, "lock *(u%u *)(%s) %s= r%u", bits, place, names[i].sign,
				 in->src_reg);
		else if (in->imm == (names[i].operation | BPF_FETCH))
			snprintf(text, BPF_TEXT_MAX, "r%u = atomic_fetch_%s((u%u *)(%s), r%u)", in->src_reg,
				 names[i].name, bits, place, in->src_reg);
}

static void write_access(char *text, const struct bpf_insn *in)
{
	unsigned bits = bpf_access_size(in) * 8;
	char place[32];

	write_place(place, bpf_class(in) == BPF_LDX ? in->src_reg : in->dst_reg, in->off);
	if (bpf_class(in) == BPF_LDX)
		snprintf(text, BPF_TEXT_MAX, "r%u = *(%c%u *)(%s)", in->dst_reg, bpf_mode(in) == BPF_MEM ? 'u' : 's',
			 bits, place);
	else if (bpf_class(in) == BPF_ST)
		snprintf(text, BPF_TEXT_MAX, "*(u%u *)(%s) = %d", bits, place, in->imm);
	else if (bpf_mode(in) == BPF_ATOMIC)
		write_atomic(text, in);
	else
		snprintf(text, BPF_TEXT_MAX, "*(u%u *)(%s) = r%u", bits, place, in->src_reg);
}

void bpf_disassemble(char text[BPF_TEXT_MAX], const struct bpf_insn *in)
{
	text[0] = 0;
	switch (bpf_class(in)) {
	case BPF_ALU:
	case BPF_ALU64:
		write_alu(text, in);
		break;
	case BPF_JMP:
	case BPF_JMP32:
		write_jump(text, in);
		break;
	case BPF_LD:
		if (in->src_reg == BPF_PSEUDO_MAP_FD)
			snprintf(text, BPF_TEXT_MAX, "r%u = map %d", in->dst_reg, in->imm);
		else
			snprintf(text, BPF_TEXT_MAX, "r%u = 0x%llx ll", in->dst_reg,
				 (unsigned long long)bpf_wide_value(in));
		break;
	default:
		write_access(text, in);
	}
}
