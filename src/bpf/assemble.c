/*
 * The assembler, which reads a program's text; see text.h.  Pure.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"
#include "text.h"

#define LABEL_MAX 24u
#define LABELS	  256u

struct label {
	char name[LABEL_MAX];
	uint32_t at; /* an instruction's index */
	bool known;
};

struct assembler {
	const char *at; /* the next character */
	struct bpf_insn *insns;
	uint32_t count, room;
	struct label labels[LABELS];
	uint32_t label_count;
	/* The label that an instruction jumps to, by its index in labels plus 1; 0 = none. */
	uint16_t *jumps;
};

static void skip_blanks(struct assembler *as)
{
	while (*as->at == ' ' || *as->at == '\t')
		as->at++;
}

static bool is_word(char letter)
{
	return isalnum((unsigned char)letter) || letter == '_';
}

/* Read `text` if it comes next, and a word only if it ends there. */
static bool take(struct assembler *as, const char *text)
{
	size_t length = strlen(text);

	skip_blanks(as);
	if (strncmp(as->at, text, length) != 0 || (is_word(text[length - 1]) && is_word(as->at[length])))
		return false;
	as->at += length;
	return true;
}

static bool take_number(struct assembler *as, long long *value)
{
	char *end;

	skip_blanks(as);
	if (!isdigit((unsigned char)*as->at) && *as->at != '-' && *as->at != '+')
		return false;
	errno = 0;
	*value = as->at[0] == '-' ? strtoll(as->at, &end, 0) : (long long)strtoull(as->at, &end, 0);
	if (errno || end == as->at || is_word(*end))
		return false;
	as->at = end;
	return true;
}

/* A number that the field `imm` holds, with or without a sign. */
static bool take_word(struct assembler *as, int32_t *value)
{
	long long number;

	if (!take_number(as, &number) || number < INT32_MIN || number > UINT32_MAX)
		return false;
	*value = (int32_t)number;
	return true;
}

static bool take_small(struct assembler *as, int16_t *value)
{
	long long number;

	if (!take_number(as, &number) || number < INT16_MIN || number > INT16_MAX)
		return false;
	*value = (int16_t)number;
	return true;
}

/* A register of 64 or 32 bits: `letter` is r or w; 0 in *letter takes either, and says which. */
static bool take_register(struct assembler *as, char *letter, uint8_t *number)
{
	char *end;
	long found;

	skip_blanks(as);
	if ((*as->at != 'r' && *as->at != 'w') || (*letter && *as->at != *letter) || !isdigit((unsigned char)as->at[1]))
		return false;
	found = strtol(as->at + 1, &end, 10);
	if (found >= BPF_REGISTERS || is_word(*end))
		return false;
	*letter = *as->at;
	*number = (uint8_t)found;
	as->at = end;
	return true;
}

static bool take_r(struct assembler *as, uint8_t *number)
{
	char letter = 'r';

	return take_register(as, &letter, number);
}

/* Read a type, as `u32 *)`: *size gets the code's bits for it, *is_signed tells whether the sign is extended. */
static bool take_size(struct assembler *as, uint8_t *size, bool *is_signed)
{
	static const struct {
		const char *name;
		uint8_t size;
	} sizes[] = {{"8", BPF_B}, {"16", BPF_H}, {"32", BPF_W}, {"64", BPF_DW}};

	skip_blanks(as);
	*is_signed = *as->at == 's';
	if (*as->at != 's' && *as->at != 'u')
		return false;
	as->at++;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (take(as, sizes[i].name)) {
			*size = sizes[i].size;
			return take(as, "*") && take(as, ")");
		}
	return false;
}

/* Read a register and an offset, as `r1 + 8` or `r10 - 8`. */
static bool take_sum(struct assembler *as, uint8_t *base, int16_t *off)
{
	bool minus;
	int16_t number;

	if (!take_r(as, base))
		return false;
	minus = take(as, "-");
	if (!minus && !take(as, "+"))
		return false;
	if (!take_small(as, &number))
		return false;
	*off = (int16_t)(minus ? -number : number);
	return true;
}

/* Read a place in memory, as `*(u32 *)(r1 + 8)`, from behind its first `*`. */
static bool take_place(struct assembler *as, uint8_t *size, bool *is_signed, uint8_t *base, int16_t *off)
{
	return take(as, "(") && take_size(as, size, is_signed) && take(as, "(") && take_sum(as, base, off) &&
	       take(as, ")");
}

static bool take_label(struct assembler *as, uint32_t *index)
{
	size_t length = 0;

	skip_blanks(as);
	while (is_word(as->at[length]))
		length++;
	if (!length || isdigit((unsigned char)*as->at) || length >= LABEL_MAX)
		return false;
	for (*index = 0; *index < as->label_count; ++*index)
		if (strlen(as->labels[*index].name) == length && !strncmp(as->labels[*index].name, as->at, length))
			break;
	if (*index == as->label_count) {
		if (as->label_count == LABELS)
			return false;
		as->labels[as->label_count] = (struct label){.known = false};
		memcpy(as->labels[as->label_count++].name, as->at, length);
	}
	as->at += length;
	return true;
}

/* Read a jump's target: `+3`, or a label, whose distance is put in when all labels are known. */
static bool take_target(struct assembler *as, struct bpf_insn *in)
{
	bool is_long = in->code == (BPF_JMP32 | BPF_JA);
	uint32_t index;

	skip_blanks(as);
	if (*as->at == '+' || *as->at == '-')
		return is_long ? take_word(as, &in->imm) : take_small(as, &in->off);
	if (!take_label(as, &index))
		return false;
	as->jumps[as->count] = (uint16_t)(index + 1);
	return true;
}

struct sign {
	const char *text;
	uint8_t code;
	int16_t off;
};

/* A sign that begins with another one stands in front of it. */
static const struct sign alu_signs[] = {
	{"s>>=", BPF_ARSH, 0},	      {"<<=", BPF_LSH, 0}, {">>=", BPF_RSH, 0}, {"s/=", BPF_DIV, BPF_SIGNED},
	{"s%=", BPF_MOD, BPF_SIGNED}, {"+=", BPF_ADD, 0},  {"-=", BPF_SUB, 0},	{"*=", BPF_MUL, 0},
	{"/=", BPF_DIV, 0},	      {"%=", BPF_MOD, 0},  {"|=", BPF_OR, 0},	{"&=", BPF_AND, 0},
	{"^=", BPF_XOR, 0},	      {"=", BPF_MOV, 0},   {NULL, 0, 0}};

static const struct sign jump_signs[] = {{"s>=", BPF_JSGE, 0}, {"s<=", BPF_JSLE, 0}, {"s>", BPF_JSGT, 0},
					 {"s<", BPF_JSLT, 0},  {"==", BPF_JEQ, 0},   {"!=", BPF_JNE, 0},
					 {">=", BPF_JGE, 0},   {"<=", BPF_JLE, 0},   {">", BPF_JGT, 0},
					 {"<", BPF_JLT, 0},    {"&", BPF_JSET, 0},   {NULL, 0, 0}};

static const struct sign *take_sign(struct assembler *as, const struct sign *signs)
{
	for (; signs->text; signs++)
		if (take(as, signs->text))
			return signs;
	return NULL;
}

/* Read the right operand: a register of the same width, or a number. */
static bool take_operand(struct assembler *as, struct bpf_insn *in, char letter)
{
	uint8_t reg;

	if (take_register(as, &letter, &reg)) {
		in->code |= BPF_X;
		in->src_reg = reg & 15;
		return true;
	}
	return take_word(as, &in->imm);
}

static bool take_jump(struct assembler *as, struct bpf_insn *in)
{
	const struct sign *sign;
	uint8_t left;
	char letter = 0;

	if (!take_register(as, &letter, &left) || !(sign = take_sign(as, jump_signs)))
		return false;
	in->dst_reg = left & 15;
	in->code = (uint8_t)((letter == 'r' ? BPF_JMP : BPF_JMP32) | sign->code);
	return take_operand(as, in, letter) && take(as, "goto") && take_target(as, in);
}

static const struct {
	const char *name, *sign;
	int32_t operation;
} atomics[] = {{"add", "+=", BPF_ADD}, {"or", "|=", BPF_OR}, {"and", "&=", BPF_AND}, {"xor", "^=", BPF_XOR}};

#define ATOMICS (sizeof(atomics) / sizeof(atomics[0]))

/* Read an atomic instruction without a result, as `*(u64 *)(r1 + 0) += r2`, from behind `lock`. */
static bool take_locked(struct assembler *as, struct bpf_insn *in)
{
	uint8_t size, base, from;
	bool is_signed;

	if (!take(as, "*") || !take_place(as, &size, &is_signed, &base, &in->off) || is_signed)
		return false;
	for (size_t i = 0; i < ATOMICS; i++)
		if (take(as, atomics[i].sign)) {
			in->code = BPF_STX | BPF_ATOMIC | size;
			in->imm = atomics[i].operation;
			in->dst_reg = base & 15;
			if (!take_r(as, &from))
				return false;
			in->src_reg = from & 15;
			return true;
		}
	return false;
}

/* Read the arguments of `xchg_64(r1 + 0, r2)` or `cmpxchg_32(r1 + 0, r0, r2)`, from behind the parenthesis. */
static bool take_exchange(struct assembler *as, struct bpf_insn *in, uint8_t size, bool compares)
{
	uint8_t base, from;
	uint8_t zero = 1;

	if (!take_sum(as, &base, &in->off) || !take(as, ",") ||
	    (compares && (!take_r(as, &zero) || zero || !take(as, ","))) || !take_r(as, &from) || !take(as, ")"))
		return false;
	in->code = BPF_STX | BPF_ATOMIC | size;
	in->imm = compares ? BPF_CMPXCHG : BPF_XCHG;
	in->dst_reg = base & 15;
	in->src_reg = from & 15;
	return true;
}

/* Read an atomic instruction whose result goes to register `to`.  *is_one: the text names such an instruction. */
static bool take_fetching(struct assembler *as, struct bpf_insn *in, uint8_t to, bool *is_one)
{
	static const struct {
		const char *name;
		uint8_t size;
		bool compares;
	} exchanges[] = {{"xchg_64", BPF_DW, false},
			 {"xchg_32", BPF_W, false},
			 {"cmpxchg_64", BPF_DW, true},
			 {"cmpxchg_32", BPF_W, true}};
	char name[LABEL_MAX] = "atomic_fetch_";
	const size_t prefix = strlen(name);
	uint8_t size, base, from;
	bool is_signed;

	*is_one = true;
	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		if (take(as, exchanges[i].name))
			return take(as, "(") && take_exchange(as, in, exchanges[i].size, exchanges[i].compares) &&
			       to == (exchanges[i].compares ? 0 : in->src_reg);
	for (size_t i = 0; i < ATOMICS; i++) {
		strcpy(name + prefix, atomics[i].name);
		if (!take(as, name))
			continue;
		if (!take(as, "("))
			return false;
		if (!take(as, "(") || !take_size(as, &size, &is_signed) || is_signed || !take(as, "(") ||
		    !take_sum(as, &base, &in->off) || !take(as, ")") || !take(as, ",") || !take_r(as, &from) ||
		    !take(as, ")") || from != to)
			return false;
		in->code = BPF_STX | BPF_ATOMIC | size;
		in->imm = atomics[i].operation | BPF_FETCH;
		in->dst_reg = base & 15;
		in->src_reg = from & 15;
		return true;
	}
	*is_one = false;
	return false;
}

/* Read a byte swap, as `be16 r1`, from behind `r1 =`. */
static bool take_swap(struct assembler *as, struct bpf_insn *in, bool *is_one)
{
	static const struct {
		const char *name;
		uint8_t code;
	} orders[] = {{"le", BPF_ALU | BPF_END | BPF_TO_LE},
		      {"be", BPF_ALU | BPF_END | BPF_TO_BE},
		      {"bswap", BPF_ALU64 | BPF_END}};
	static const int widths[] = {16, 32, 64};
	uint8_t same;

	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 3; k++) {
			char name[] = {0, 0, 0, 0, 0, 0, 0, 0};

			strcpy(name, orders[i].name);
			strcat(name, k == 0 ? "16" : k == 1 ? "32" : "64");
			if (!take(as, name))
				continue;
			*is_one = true;
			in->code = orders[i].code;
			in->imm = widths[k];
			return take_r(as, &same) && same == in->dst_reg;
		}
	*is_one = false;
	return false;
}

/* Read a move that extends the sign, as `(s8)r2`, from behind `r1 = (`. */
static bool take_extended(struct assembler *as, struct bpf_insn *in, char letter)
{
	uint8_t from;

	in->off = (int16_t)(take(as, "s8") ? 8 : take(as, "s16") ? 16 : take(as, "s32") ? 32 : 0);
	in->code = (uint8_t)((letter == 'r' ? BPF_ALU64 : BPF_ALU) | BPF_MOV | BPF_X);
	if (!in->off || !take(as, ")") || !take_register(as, &letter, &from))
		return false;
	in->src_reg = from & 15;
	return true;
}

static bool take_load(struct assembler *as, struct bpf_insn *in)
{
	uint8_t size, base;
	bool is_signed;

	if (!take_place(as, &size, &is_signed, &base, &in->off))
		return false;
	in->src_reg = base & 15;
	in->code = (uint8_t)(BPF_LDX | (is_signed ? BPF_MEMSX : BPF_MEM) | size);
	return true;
}

static bool take_store(struct assembler *as, struct bpf_insn *in)
{
	uint8_t size, base, from;
	bool is_signed;

	if (!take_place(as, &size, &is_signed, &base, &in->off) || is_signed || !take(as, "="))
		return false;
	in->dst_reg = base & 15;
	if (take_r(as, &from)) {
		in->src_reg = from & 15;
		in->code = BPF_STX | BPF_MEM | size;
		return true;
	}
	in->code = BPF_ST | BPF_MEM | size;
	return take_word(as, &in->imm);
}

/* Read a number of 64 bits, which has `ll` behind it.  *is_one: the text has such a number. */
static bool take_wide(struct assembler *as, struct bpf_insn in[2], bool *is_one)
{
	const char *before = as->at;
	long long number;

	*is_one = take_number(as, &number) && take(as, "ll");
	if (!*is_one) {
		as->at = before;
		return false;
	}
	in[0].code = BPF_LD | BPF_IMM | BPF_DW;
	in[0].imm = (int32_t)number;
	in[1].imm = (int32_t)((uint64_t)number >> 32);
	return true;
}

/*
 * Read a load, a map's number, an atomic instruction, a byte swap or a 64-bit constant, from behind `r1 =`.  *is_one:
 * the text has one of these.
 */
static bool take_special(struct assembler *as, struct bpf_insn in[2], bool *is_one)
{
	bool done;

	*is_one = true;
	if (take(as, "*"))
		return take_load(as, in);
	if (take(as, "map")) {
		in->code = BPF_LD | BPF_IMM | BPF_DW;
		in->src_reg = BPF_PSEUDO_MAP_FD;
		return take_word(as, &in->imm);
	}
	done = take_fetching(as, in, in->dst_reg, is_one);
	if (!*is_one)
		done = take_swap(as, in, is_one);
	if (!*is_one)
		done = take_wide(as, in, is_one);
	return done;
}

/* An instruction that begins with the register that it sets. */
static bool take_assignment(struct assembler *as, struct bpf_insn in[2])
{
	const struct sign *sign;
	uint8_t to, same;
	char letter = 0;
	bool is_one, done;

	if (!take_register(as, &letter, &to) || !(sign = take_sign(as, alu_signs)))
		return false;
	in->dst_reg = to & 15;
	if (sign->code == BPF_MOV) {
		if (take(as, "("))
			return take_extended(as, in, letter);
		done = letter == 'r' && take_special(as, in, &is_one);
		if (letter == 'r' && is_one)
			return done;
		skip_blanks(as);
		if (as->at[0] == '-' && as->at[1] == letter) {
			as->at++;
			in->code = (uint8_t)((letter == 'r' ? BPF_ALU64 : BPF_ALU) | BPF_NEG);
			return take_register(as, &letter, &same) && same == to;
		}
	}
	in->code = (uint8_t)((letter == 'r' ? BPF_ALU64 : BPF_ALU) | sign->code);
	in->off = sign->off;
	return take_operand(as, in, letter);
}

static bool take_instruction(struct assembler *as, struct bpf_insn in[2])
{
	if (take(as, "if"))
		return take_jump(as, in);
	if (take(as, "goto") || take(as, "gotol")) {
		in->code = (uint8_t)((as->at[-1] == 'l' ? BPF_JMP32 : BPF_JMP) | BPF_JA);
		return take_target(as, in);
	}
	if (take(as, "call")) {
		in->code = BPF_JMP | BPF_CALL;
		return take_word(as, &in->imm);
	}
	if (take(as, "exit")) {
		in->code = BPF_JMP | BPF_EXIT;
		return true;
	}
	if (take(as, "lock"))
		return take_locked(as, in);
	return take(as, "*") ? take_store(as, in) : take_assignment(as, in);
}

/* Read a label, as `name:`, in front of an instruction. */
static bool take_name(struct assembler *as)
{
	const char *before = as->at;
	uint32_t index;

	if (!take_label(as, &index) || *as->at != ':') {
		as->at = before;
		return true;
	}
	as->at++;
	if (as->labels[index].known)
		return false;
	as->labels[index].known = true;
	as->labels[index].at = as->count;
	return true;
}

static bool at_end_of_line(struct assembler *as)
{
	skip_blanks(as);
	return !*as->at || *as->at == '\n' || *as->at == '#' || *as->at == ';';
}

/* Read an instruction.  Returns 0, -EINVAL or -E2BIG. */
static int take_line(struct assembler *as)
{
	struct bpf_insn in[2] = {{0}};
	uint32_t needed;

	if (!take_name(as))
		return -EINVAL;
	if (at_end_of_line(as))
		return 0;
	if (as->count == as->room)
		return -E2BIG;
	if (!take_instruction(as, in) || !at_end_of_line(as))
		return -EINVAL;
	needed = bpf_is_wide(in) ? 2 : 1;
	if (needed > as->room - as->count)
		return -E2BIG;
	memcpy(as->insns + as->count, in, needed * sizeof(*in));
	as->count += needed;
	return 0;
}

static int take_all(struct assembler *as, struct calltap_diag *diag)
{
	unsigned line = 1;
	int ret = 0;

	while (*as->at && !ret) {
		const char *begin = as->at;
		int length = (int)strcspn(begin, "\n;#");

		ret = take_line(as);
		if (ret == -EINVAL)
			return calltap_diag_set(diag, ret, "line %u is no instruction: %.*s", line, length, begin);
		if (ret)
			return calltap_diag_set(diag, ret, "the program has more than %u instructions", as->room);
		if (*as->at == '#')
			as->at += strcspn(as->at, "\n");
		line += *as->at == '\n';
		as->at += *as->at != 0;
	}
	return 0;
}

static int put_distances(struct assembler *as, struct calltap_diag *diag)
{
	for (uint32_t i = 0; i < as->count; i++) {
		const struct label *label = as->jumps[i] ? &as->labels[as->jumps[i] - 1] : NULL;
		int64_t distance = label ? (int64_t)label->at - i - 1 : 0;

		if (!label)
			continue;
		if (!label->known)
			return calltap_diag_set(diag, -EINVAL, "there is no label %s", label->name);
		if (as->insns[i].code == (BPF_JMP32 | BPF_JA))
			as->insns[i].imm = (int32_t)distance;
		else if (distance < INT16_MIN || distance > INT16_MAX)
			return calltap_diag_set(diag, -EINVAL, "label %s is too far away", label->name);
		else
			as->insns[i].off = (int16_t)distance;
	}
	return 0;
}

int bpf_assemble(struct bpf_insn *insns, uint32_t *count, uint32_t room, const char *text, struct calltap_diag *diag)
{
	struct assembler *as = calloc(1, sizeof(*as));
	int ret = -ENOMEM;

	*count = 0;
	if (as)
		as->jumps = calloc(room + 1, sizeof(*as->jumps));
	if (as && as->jumps) {
		as->at = text;
		as->insns = insns;
		as->room = room;
		ret = take_all(as, diag);
		if (!ret)
			ret = put_distances(as, diag);
		*count = ret ? 0 : as->count;
	} else {
		calltap_diag_set(diag, ret, "not enough memory for a program");
	}
	if (as)
		free(as->jumps);
	free(as);
	return ret;
}
