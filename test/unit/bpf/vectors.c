/* The assembly of vectors; see vectors.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

enum { LABELS = 64, WORDS = 6, LABEL_SIZE = 24 };

struct reader {
	struct bpf_insn *insns;
	uint32_t count;
	struct {
		char name[LABEL_SIZE];
		uint32_t at;
	} labels[LABELS];
	uint32_t label_count;
	char targets[VECTOR_INSNS][LABEL_SIZE]; /* of jumps */
};

/* A line: the mnemonic and what it is followed by. */
struct line {
	char *words[WORDS];
	int count;
};

struct row {
	const char *name;
	uint8_t code;
	int16_t off;
};

static const struct row *find(const struct row *rows, const char *name, size_t length)
{
	for (; rows->name; rows++)
		if (strlen(rows->name) == length && !strncmp(rows->name, name, length))
			return rows;
	return NULL;
}

/* A mnemonic with 32 behind it, or 64, or nothing, which is 64: whether it is so, and its length without that. */
static bool is_narrow(const char *name, size_t *length)
{
	*length = strlen(name);
	if (*length < 3 || (strcmp(name + *length - 2, "32") && strcmp(name + *length - 2, "64")))
		return false;
	*length -= 2;
	return name[*length] == '3';
}

static bool take_register(uint8_t *number, const char *word)
{
	char *end;
	long value;

	if (strncmp(word, "%r", 2) != 0)
		return false;
	value = strtol(word + 2, &end, 10);
	*number = (uint8_t)value;
	return end > word + 2 && !*end && value >= 0 && value < BPF_REGISTERS;
}

static bool take_number(int64_t *number, const char *word)
{
	char *end;

	*number = word[0] == '-' ? strtoll(word, &end, 0) : (int64_t)strtoull(word, &end, 0);
	return end > word && !*end;
}

/* [%r10-8] */
static bool take_place(uint8_t *base, int16_t *off, const char *word)
{
	char text[16], *sign;
	size_t length = strlen(word);
	int64_t number = 0;

	if (length < 5 || length >= sizeof(text) || word[0] != '[' || word[length - 1] != ']')
		return false;
	memcpy(text, word + 1, length - 2);
	text[length - 2] = 0;
	sign = strpbrk(text, "+-");
	if (sign && !take_number(&number, sign[0] == '+' ? sign + 1 : sign))
		return false;
	if (sign)
		*sign = 0;
	*off = (int16_t)number;
	return take_register(base, text);
}

static void put(struct reader *reader, struct bpf_insn in)
{
	reader->insns[reader->count++] = in;
}

/* The right operand: a register or a number. */
static bool take_operand(struct bpf_insn *in, const char *word)
{
	uint8_t from;
	int64_t number;

	if (take_register(&from, word)) {
		in->code |= BPF_X;
		in->src_reg = from & 15;
		return true;
	}
	if (!take_number(&number, word))
		return false;
	in->imm = (int32_t)number;
	return number >= INT32_MIN && number <= UINT32_MAX;
}

static bool read_alu(struct reader *reader, const struct line *line)
{
	static const struct row rows[] = {{"add", BPF_ADD, 0},	{"sub", BPF_SUB, 0},  {"mul", BPF_MUL, 0},
					  {"div", BPF_DIV, 0},	{"mod", BPF_MOD, 0},  {"or", BPF_OR, 0},
					  {"and", BPF_AND, 0},	{"xor", BPF_XOR, 0},  {"mov", BPF_MOV, 0},
					  {"lsh", BPF_LSH, 0},	{"rsh", BPF_RSH, 0},  {"arsh", BPF_ARSH, 0},
					  {"sdiv", BPF_DIV, 1}, {"smod", BPF_MOD, 1}, {NULL, 0, 0}};
	struct bpf_insn in = {.code = 0};
	const struct row *row;
	size_t length;
	bool narrow = is_narrow(line->words[0], &length);
	uint8_t to;

	row = find(rows, line->words[0], length);
	if (!row || line->count != 3 || !take_register(&to, line->words[1]))
		return false;
	in.code = (uint8_t)(row->code | (narrow ? BPF_ALU : BPF_ALU64));
	in.off = row->off;
	in.dst_reg = to & 15;
	if (!take_operand(&in, line->words[2]))
		return false;
	put(reader, in);
	return true;
}

/* What has one register, or extends a sign. */
static bool read_single(struct reader *reader, const struct line *line)
{
	static const struct row moves[] = {{"movsx832", BPF_ALU, 8},	 {"movsx1632", BPF_ALU, 16},
					   {"movsx864", BPF_ALU64, 8},	 {"movsx1664", BPF_ALU64, 16},
					   {"movsx3264", BPF_ALU64, 32}, {NULL, 0, 0}};
	static const struct row singles[] = {{"be16", BPF_ALU | BPF_END | BPF_TO_BE, 16},
					     {"be32", BPF_ALU | BPF_END | BPF_TO_BE, 32},
					     {"be64", BPF_ALU | BPF_END | BPF_TO_BE, 64},
					     {"le16", BPF_ALU | BPF_END, 16},
					     {"le32", BPF_ALU | BPF_END, 32},
					     {"le64", BPF_ALU | BPF_END, 64},
					     {"bswap16", BPF_ALU64 | BPF_END, 16},
					     {"bswap32", BPF_ALU64 | BPF_END, 32},
					     {"bswap64", BPF_ALU64 | BPF_END, 64},
					     {"swap16", BPF_ALU64 | BPF_END, 16},
					     {"swap32", BPF_ALU64 | BPF_END, 32},
					     {"swap64", BPF_ALU64 | BPF_END, 64},
					     {"neg", BPF_ALU64 | BPF_NEG, 0},
					     {"neg64", BPF_ALU64 | BPF_NEG, 0},
					     {"neg32", BPF_ALU | BPF_NEG, 0},
					     {NULL, 0, 0}};
	size_t length = strlen(line->words[0]);
	const struct row *move = find(moves, line->words[0], length), *single = find(singles, line->words[0], length);
	uint8_t to, from = 0;

	if (line->count < 2 || !take_register(&to, line->words[1]))
		return false;
	if (move && line->count == 3 && take_register(&from, line->words[2]))
		put(reader, (struct bpf_insn){.code = move->code | BPF_MOV | BPF_X,
					      .dst_reg = to & 15,
					      .src_reg = from & 15,
					      .off = move->off});
	else if (single && line->count == 2)
		put(reader, (struct bpf_insn){.code = single->code, .dst_reg = to & 15, .imm = single->off});
	else
		return false;
	return true;
}

static bool aim(struct reader *reader, struct bpf_insn in, const char *target)
{
	int64_t distance;

	if (take_number(&distance, target[0] == '+' ? target + 1 : target)) {
		if (in.code == (BPF_JMP32 | BPF_JA))
			in.imm = (int32_t)distance;
		else
			in.off = (int16_t)distance;
	} else if (strlen(target) < LABEL_SIZE) {
		strcpy(reader->targets[reader->count], target);
	} else {
		return false;
	}
	put(reader, in);
	return true;
}

static bool read_jump(struct reader *reader, const struct line *line)
{
	static const struct row rows[] = {{"jeq", BPF_JEQ, 0},	 {"jne", BPF_JNE, 0},	{"jgt", BPF_JGT, 0},
					  {"jge", BPF_JGE, 0},	 {"jlt", BPF_JLT, 0},	{"jle", BPF_JLE, 0},
					  {"jset", BPF_JSET, 0}, {"jsgt", BPF_JSGT, 0}, {"jsge", BPF_JSGE, 0},
					  {"jslt", BPF_JSLT, 0}, {"jsle", BPF_JSLE, 0}, {"ja", BPF_JA, 0},
					  {NULL, 0, 0}};
	struct bpf_insn in = {.code = 0};
	const struct row *row;
	size_t length;
	bool narrow = is_narrow(line->words[0], &length);
	uint8_t left;

	if (!strcmp(line->words[0], "exit") && line->count == 1) {
		put(reader, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
		return true;
	}
	row = find(rows, line->words[0], length);
	if (!row)
		return false;
	in.code = (uint8_t)(row->code | (narrow ? BPF_JMP32 : BPF_JMP));
	if (row->code == BPF_JA)
		return line->count == 2 && aim(reader, in, line->words[1]);
	if (line->count != 4 || !take_register(&left, line->words[1]) || !take_operand(&in, line->words[2]))
		return false;
	in.dst_reg = left & 15;
	return aim(reader, in, line->words[3]);
}

static bool read_memory(struct reader *reader, const struct line *line)
{
	static const struct row sizes[] = {
		{"b", BPF_B, 0}, {"h", BPF_H, 0}, {"w", BPF_W, 0}, {"dw", BPF_DW, 0}, {NULL, 0, 0}};
	const char *name = line->words[0];
	bool load = !strncmp(name, "ldx", 3), store = !strncmp(name, "st", 2), from_register = !strncmp(name, "stx", 3);
	bool sign = load && name[3] == 's';
	const char *size_name = name + (load ? 3 + sign : store ? 2 + from_register : 0);
	const struct row *size = load || store ? find(sizes, size_name, strlen(size_name)) : NULL;
	struct bpf_insn in = {.code = 0};
	uint8_t reg = 0, base;
	int64_t number = 0;

	if (!size || line->count != 3 || !take_place(&base, &in.off, line->words[load ? 2 : 1]))
		return false;
	if (load || from_register ? !take_register(&reg, line->words[load ? 1 : 2])
				  : !take_number(&number, line->words[2]))
		return false;
	in.code = (uint8_t)(size->code | (sign ? BPF_MEMSX : BPF_MEM) |
			    (load	     ? BPF_LDX
			     : from_register ? BPF_STX
					     : BPF_ST));
	in.dst_reg = (load ? reg : base) & 15;
	in.src_reg = (load ? base : reg) & 15;
	in.imm = (int32_t)number;
	put(reader, in);
	return true;
}

static bool read_atomic(struct reader *reader, const struct line *line)
{
	static const struct row rows[] = {{"add", BPF_ADD, 0},
					  {"or", BPF_OR, 0},
					  {"and", BPF_AND, 0},
					  {"xor", BPF_XOR, 0},
					  {"xchg", (uint8_t)(BPF_XCHG), 0},
					  {"cmpxchg", (uint8_t)(BPF_CMPXCHG), 0},
					  {NULL, 0, 0}};
	int first = line->count > 1 && !strcmp(line->words[1], "fetch") ? 2 : 1;
	struct bpf_insn in = {.code = 0};
	const struct row *row;
	uint8_t base, from;
	size_t length;
	bool narrow;

	if (strcmp(line->words[0], "lock") || line->count != first + 3)
		return false;
	narrow = is_narrow(line->words[first], &length);
	row = find(rows, line->words[first], length);
	if (!row || !take_place(&base, &in.off, line->words[first + 1]) ||
	    !take_register(&from, line->words[first + 2]))
		return false;
	in.code = (uint8_t)(BPF_STX | BPF_ATOMIC | (narrow ? BPF_W : BPF_DW));
	in.imm = row->code | (first == 2 ? BPF_FETCH : 0);
	in.dst_reg = base & 15;
	in.src_reg = from & 15;
	put(reader, in);
	return true;
}

static bool read_wide(struct reader *reader, const struct line *line)
{
	int64_t number;
	uint8_t to;

	if (strcmp(line->words[0], "lddw") || line->count != 3 || !take_register(&to, line->words[1]) ||
	    !take_number(&number, line->words[2]))
		return false;
	put(reader, (struct bpf_insn){.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = to & 15, .imm = (int32_t)number});
	put(reader, (struct bpf_insn){.imm = (int32_t)((uint64_t)number >> 32)});
	return true;
}

static bool add_label(struct reader *reader, const char *name, size_t length)
{
	if (reader->label_count == LABELS || length >= LABEL_SIZE)
		return false;
	memcpy(reader->labels[reader->label_count].name, name, length);
	reader->labels[reader->label_count++].at = reader->count;
	return true;
}

static const char *read_line(struct reader *reader, char *text)
{
	struct line line = {.count = 0};
	size_t length;
	char *save;

	text[strcspn(text, "#")] = 0;
	for (char *word = strtok_r(text, " \t,\r", &save); word && line.count < WORDS;
	     word = strtok_r(NULL, " \t,\r", &save))
		line.words[line.count++] = word;
	if (!line.count)
		return NULL;
	length = strlen(line.words[0]);
	if (line.words[0][length - 1] == ':')
		return add_label(reader, line.words[0], length - 1) ? NULL : "label";
	if (!strcmp(line.words[0], "call"))
		return "call";
	if (reader->count + 2 > VECTOR_INSNS)
		return "too long";
	return read_alu(reader, &line) || read_single(reader, &line) || read_jump(reader, &line) ||
			       read_memory(reader, &line) || read_atomic(reader, &line) || read_wide(reader, &line)
		       ? NULL
		       : "an instruction that is not known";
}

/* "exit" is a label, too: the first instruction that is one. */
static bool find_target(const struct reader *reader, const char *name, uint32_t *at)
{
	for (uint32_t i = 0; i < reader->label_count; i++)
		if (!strcmp(reader->labels[i].name, name)) {
			*at = reader->labels[i].at;
			return true;
		}
	for (*at = 0; *at < reader->count && !strcmp(name, "exit"); ++*at)
		if (bpf_is_exit(&reader->insns[*at]))
			return true;
	return false;
}

const char *vectors_assemble(struct bpf_insn insns[VECTOR_INSNS], uint32_t *count, char *text)
{
	static struct reader reader;
	const char *fault = NULL;
	char *save;

	reader = (struct reader){.insns = insns};
	for (char *line = strtok_r(text, "\n", &save); line && !fault; line = strtok_r(NULL, "\n", &save))
		fault = read_line(&reader, line);
	for (uint32_t i = 0; i < reader.count && !fault; i++) {
		int64_t distance;
		uint32_t at;

		if (!reader.targets[i][0])
			continue;
		if (!find_target(&reader, reader.targets[i], &at))
			return "a label that is not there";
		distance = (int64_t)at - i - 1;
		if (insns[i].code == (BPF_JMP32 | BPF_JA))
			insns[i].imm = (int32_t)distance;
		else
			insns[i].off = (int16_t)distance;
	}
	*count = reader.count;
	return fault;
}
