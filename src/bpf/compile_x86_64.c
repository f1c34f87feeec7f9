/*
 * Programs as x86-64 code; see compile.h.
 *
 * Registers have fixed places: r0 is the register of results, r1 to r5 are those of arguments, r6 to r9 survive calls,
 * r10 is the frame pointer.  The CPU's r10 to r12 are for instructions that need more.  All jumps have 32 bits, so
 * that lengths do not depend on distances.
 *
 * Context: host.  Pure.  Source: Intel SDM volume 2.
 */
#include "compile_impl.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

static const uint8_t places[BPF_REGISTERS] = {RAX, RDI, RSI, RDX, RCX, R8, RBX, R13, R14, R15, RBP};

static void put(struct bpf_writer *writer, uint64_t bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		isa_put8(&writer->out, (uint8_t)(bytes >> (8 * i)));
}

/* An instruction's operands: `reg` and `base` go into ModRM; memory has a displacement of 32 bits. */
struct form {
	uint8_t prefix; /* 0 = the instruction has none */
	bool wide;	/* the operands have 64 bits */
	bool byte;	/* a register has 8 bits, for which some need REX */
	bool memory;
};

/* Opcodes of two bytes begin with 0f in the lower byte. */
static void put_operands(struct bpf_writer *writer, struct form form, unsigned opcode, unsigned reg, unsigned base,
			 int32_t displacement)
{
	unsigned rex = 0x40 | (form.wide ? 8 : 0) | (reg & 8) >> 1 | (base & 8) >> 3;

	if (form.prefix)
		put(writer, form.prefix, 1);
	if (rex != 0x40 || form.byte)
		put(writer, rex, 1);
	put(writer, opcode, opcode > 0xff ? 2 : 1);
	put(writer, (form.memory ? 0x80 : 0xc0) | (reg & 7) << 3 | (base & 7), 1);
	if (form.memory && (base & 7) == RSP)
		put(writer, 0x24, 1);
	if (form.memory)
		put(writer, (uint32_t)displacement, 4);
}

/* Both operands are registers. */
static void put_pair(struct bpf_writer *writer, bool wide, unsigned opcode, unsigned reg, unsigned base)
{
	put_operands(writer, (struct form){.wide = wide}, opcode, reg, base, 0);
}

static void put_move(struct bpf_writer *writer, bool wide, unsigned to, unsigned from)
{
	put_pair(writer, wide, 0x89, from, to);
}

static void put_push(struct bpf_writer *writer, unsigned reg)
{
	if (reg & 8)
		put(writer, 0x41, 1);
	put(writer, 0x50 | (reg & 7), 1);
}

static void put_pop(struct bpf_writer *writer, unsigned reg)
{
	if (reg & 8)
		put(writer, 0x41, 1);
	put(writer, 0x58 | (reg & 7), 1);
}

/*
 * Keep a register for a while, with its number from 0 on.  Bare code leaves the stack pointer as it is: it has two
 * words above its stack for that.
 */
static void put_keep(struct bpf_writer *writer, unsigned reg, int32_t number)
{
	if (writer->job->bare)
		put_operands(writer, (struct form){.wide = true, .memory = true}, 0x89, reg, RBP, 8 * number);
	else
		put_push(writer, reg);
}

/* In the opposite order. */
static void put_back(struct bpf_writer *writer, unsigned reg, int32_t number)
{
	if (writer->job->bare)
		put_operands(writer, (struct form){.wide = true, .memory = true}, 0x8b, reg, RBP, 8 * number);
	else
		put_pop(writer, reg);
}

static void put_constant(struct bpf_writer *writer, unsigned reg, uint64_t number)
{
	if (number <= UINT32_MAX) {
		if (reg & 8)
			put(writer, 0x41, 1);
		put(writer, 0xb8 | (reg & 7), 1);
		put(writer, number, 4);
	} else {
		put(writer, 0x48 | (reg & 8) >> 3, 1);
		put(writer, 0xb8 | (reg & 7), 1);
		put(writer, number, 8);
	}
}

/* The number's sign is extended to 64 bits if `wide`. */
static void put_number(struct bpf_writer *writer, bool wide, unsigned reg, int32_t number)
{
	if (wide && number < 0) {
		put_pair(writer, true, 0xc7, 0, reg);
		put(writer, (uint32_t)number, 4);
	} else {
		put_constant(writer, reg, (uint32_t)number);
	}
}

/* Registers of the program that a call keeps. */
enum { KEPT_FIRST = BPF_REG_6, KEPT_LAST = BPF_REG_9 };

/* The stack stays at a multiple of 16, as calls need it. */
static void put_begin(struct bpf_writer *writer)
{
	uint32_t pushes = 0;

	if (writer->job->bare)
		return;
	for (unsigned reg = KEPT_FIRST; reg <= KEPT_LAST; reg++)
		pushes += bpf_uses(writer, reg);
	put_push(writer, RBP);
	put_move(writer, true, RBP, RSP);
	put_pair(writer, true, 0x81, 5, RSP);
	put(writer, BPF_STACK_SIZE + 8 * (pushes & 1), 4);
	for (unsigned reg = KEPT_FIRST; reg <= KEPT_LAST; reg++)
		if (bpf_uses(writer, reg))
			put_push(writer, places[reg]);
}

static void put_end(struct bpf_writer *writer)
{
	if (writer->job->bare) {
		put(writer, 0xc3, 1); /* ret */
		return;
	}
	for (unsigned reg = KEPT_LAST; reg >= KEPT_FIRST; reg--)
		if (bpf_uses(writer, reg))
			put_pop(writer, places[reg]);
	put(writer, 0xc3c9, 2); /* leave; ret */
}

/* A short jump forward, whose distance put_landing() puts in. */
static size_t put_skip(struct bpf_writer *writer, uint8_t opcode)
{
	put(writer, opcode, 2);
	return writer->out.length;
}

static void put_landing(struct bpf_writer *writer, size_t skip)
{
	if (skip <= writer->out.size)
		writer->out.code[skip - 1] = (uint8_t)(writer->out.length - skip);
}

enum { JMP = 0xeb, JZ = 0x74, JNZ = 0x75 };

/* The dividend is in r10, the divisor in r11 and not 0; the result goes to r11. */
static void put_division(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	bool rest = bpf_operation(in) == BPF_MOD;
	size_t overflows = 0, done;

	if (in->off == BPF_SIGNED) { /* the CPU traps for the least number divided by -1 */
		put_operands(writer, (struct form){.wide = wide}, 0x83, 7, R11, 0);
		put(writer, 0xff, 1);
		overflows = put_skip(writer, JZ);
	}
	put_keep(writer, RAX, 0);
	put_keep(writer, RDX, 1);
	put_move(writer, wide, RAX, R10);
	if (in->off != BPF_SIGNED) {
		put_pair(writer, false, 0x31, RDX, RDX);
	} else {
		if (wide)
			put(writer, 0x48, 1);
		put(writer, 0x99, 1); /* cqo, cdq */
	}
	put_pair(writer, wide, 0xf7, in->off == BPF_SIGNED ? 7 : 6, R11);
	put_move(writer, wide, R11, rest ? RDX : RAX);
	put_back(writer, RDX, 1);
	put_back(writer, RAX, 0);
	if (!overflows)
		return;
	done = put_skip(writer, JMP);
	put_landing(writer, overflows);
	if (rest) {
		put_pair(writer, false, 0x31, R11, R11);
	} else {
		put_move(writer, wide, R11, R10);
		put_pair(writer, wide, 0xf7, 3, R11);
	}
	put_landing(writer, done);
}

static void put_divide(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg];
	size_t is_zero, done;

	if (bpf_has_register(in))
		put_move(writer, wide, R11, places[in->src_reg]);
	else
		put_number(writer, wide, R11, in->imm);
	put_move(writer, wide, R10, to);
	put_pair(writer, wide, 0x85, R11, R11);
	is_zero = put_skip(writer, JZ);
	put_division(writer, in, wide);
	done = put_skip(writer, JMP);
	put_landing(writer, is_zero);
	if (bpf_operation(in) == BPF_MOD)
		put_move(writer, wide, R11, R10);
	put_landing(writer, done); /* the quotient by 0 is the 0 in r11 */
	put_move(writer, wide, to, R11);
}

static unsigned shift_of(uint8_t operation)
{
	return operation == BPF_LSH ? 4 : operation == BPF_RSH ? 5 : 7;
}

static void put_shift(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], how = shift_of(bpf_operation(in));

	if (!bpf_has_register(in)) {
		put_pair(writer, wide, 0xc1, how, to);
		put(writer, (uint8_t)in->imm & (wide ? 63 : 31), 1);
		return;
	}
	put_move(writer, true, R11, to);
	put_move(writer, true, R10, RCX);
	put_move(writer, true, RCX, places[in->src_reg]);
	put_pair(writer, wide, 0xd3, how, R11);
	put_move(writer, true, RCX, R10);
	put_move(writer, wide, to, R11);
}

static void put_swap(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool swaps = bpf_class(in) == BPF_ALU64 || bpf_has_register(in);
	unsigned to = places[in->dst_reg];

	if (in->imm == 16 && swaps) {
		put_operands(writer, (struct form){.prefix = 0x66}, 0xc1, 1, to, 0); /* ror $8, of 16 bits */
		put(writer, 8, 1);
	} else if (swaps) {
		unsigned rex = 0x40 | (in->imm == 64 ? 8 : 0) | (to & 8) >> 3;

		put(writer, rex, 1);
		put(writer, 0xc80f | (to & 7) << 8, 2);
	}
	if (in->imm == 16)
		put_pair(writer, false, 0xb70f, to, to);
	else if (in->imm == 32)
		put_move(writer, false, to, to);
}

/* A move that extends the sign. */
static void put_extended(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned opcode = in->off == 8 ? 0xbe0f : in->off == 16 ? 0xbf0f : 0x63;

	put_operands(writer, (struct form){.wide = wide, .byte = in->off == 8}, opcode, places[in->dst_reg],
		     places[in->src_reg], 0);
}

/*
 * The number that x86 gives to an operation, or -1.  With a register the opcode is 8 times the number and 1, with a
 * constant the number is ModRM's middle field.
 */
static int number_of(uint8_t operation)
{
	switch (operation) {
	case BPF_ADD:
		return 0;
	case BPF_OR:
		return 1;
	case BPF_AND:
		return 4;
	case BPF_SUB:
		return 5;
	case BPF_XOR:
		return 6;
	default:
		return -1;
	}
}

static void put_move_alu(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	if (in->off)
		put_extended(writer, in, wide);
	else if (bpf_has_register(in))
		put_move(writer, wide, places[in->dst_reg], places[in->src_reg]);
	else
		put_number(writer, wide, places[in->dst_reg], in->imm);
}

static void put_alu(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_class(in) == BPF_ALU64, reg = bpf_has_register(in);
	unsigned to = places[in->dst_reg], from = places[in->src_reg];
	int number = number_of(bpf_operation(in));

	switch (bpf_operation(in)) {
	case BPF_MOV:
		put_move_alu(writer, in, wide);
		break;
	case BPF_NEG:
		put_pair(writer, wide, 0xf7, 3, to);
		break;
	case BPF_END:
		put_swap(writer, in);
		break;
	case BPF_LSH:
	case BPF_RSH:
	case BPF_ARSH:
		put_shift(writer, in, wide);
		break;
	case BPF_DIV:
	case BPF_MOD:
		put_divide(writer, in, wide);
		break;
	case BPF_MUL:
		if (reg)
			put_pair(writer, wide, 0xaf0f, to, from);
		else
			put_pair(writer, wide, 0x69, to, to);
		if (!reg)
			put(writer, (uint32_t)in->imm, 4);
		break;
	default:
		if (reg)
			put_pair(writer, wide, (unsigned)number * 8 + 1, from, to);
		else
			put_pair(writer, wide, 0x81, (unsigned)number, to);
		if (!reg)
			put(writer, (uint32_t)in->imm, 4);
	}
}

static void put_load(struct bpf_writer *writer, const struct bpf_insn *in)
{
	static const uint16_t zero_extended[] = {0xb60f, 0xb70f, 0x8b, 0x8b}, sign_extended[] = {0xbe0f, 0xbf0f, 0x63};
	unsigned index = (unsigned)__builtin_ctz(bpf_access_size(in));
	bool is_signed = bpf_mode(in) == BPF_MEMSX;

	put_operands(writer, (struct form){.wide = is_signed || index == 3, .memory = true},
		     is_signed ? sign_extended[index] : zero_extended[index], places[in->dst_reg], places[in->src_reg],
		     in->off);
}

/* A store of a register or, with `number`, of a constant. */
static void put_store(struct bpf_writer *writer, const struct bpf_insn *in, bool number)
{
	unsigned size = bpf_access_size(in);
	struct form form = {.prefix = size == 2 ? 0x66 : 0, .wide = size == 8, .byte = size == 1, .memory = true};

	if (number) {
		put_operands(writer, form, size == 1 ? 0xc6 : 0xc7, 0, places[in->dst_reg], in->off);
		put(writer, (uint32_t)in->imm, size == 8 ? 4 : size);
	} else {
		put_operands(writer, form, size == 1 ? 0x88 : 0x89, places[in->src_reg], places[in->dst_reg], in->off);
	}
}

/*
 * The CPU has no instruction for `and`, `or` and `xor` that gives back the old number, so a loop compares and
 * exchanges.
 */
static void put_fetching(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	const struct form memory = {.wide = wide, .memory = true},
			  locked = {.prefix = 0xf0, .wide = wide, .memory = true};
	size_t again;

	put_operands(writer, (struct form){.wide = true, .memory = true}, 0x8d, R11, places[in->dst_reg], in->off);
	put_keep(writer, R12, 0);
	put_move(writer, true, R12, places[in->src_reg]);
	put_keep(writer, RAX, 1);
	put_operands(writer, memory, 0x8b, RAX, R11, 0);
	again = writer->out.length;
	put_move(writer, true, R10, RAX);
	put_pair(writer, wide, (unsigned)number_of((uint8_t)(in->imm & ~BPF_FETCH)) * 8 + 1, R12, R10);
	put_operands(writer, locked, 0xb10f, R10, R11, 0);
	put(writer, JNZ, 1);
	put(writer, (uint8_t)(again - writer->out.length - 1), 1);
	put_move(writer, wide, R10, RAX);
	put_back(writer, RAX, 1);
	put_back(writer, R12, 0);
	put_move(writer, true, places[in->src_reg], R10);
}

static void put_atomic(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_access_size(in) == 8;
	const struct form locked = {.prefix = 0xf0, .wide = wide, .memory = true};
	unsigned from = places[in->src_reg], base = places[in->dst_reg];

	switch (in->imm) {
	case BPF_XCHG:
		put_operands(writer, locked, 0x87, from, base, in->off);
		break;
	case BPF_CMPXCHG:
		put_operands(writer, locked, 0xb10f, from, base, in->off);
		if (!wide)
			put_move(writer, false, RAX, RAX); /* rax was not written if the numbers were equal */
		break;
	case BPF_ADD | BPF_FETCH:
		put_operands(writer, locked, 0xc10f, from, base, in->off);
		break;
	default:
		if (in->imm & BPF_FETCH)
			put_fetching(writer, in, wide);
		else
			put_operands(writer, locked, (unsigned)number_of((uint8_t)in->imm) * 8 + 1, from, base,
				     in->off);
	}
}

/* The second byte of the opcode of a jump with this condition. */
static uint8_t condition_of(uint8_t operation)
{
	switch (operation) {
	case BPF_JEQ:
		return 0x84;
	case BPF_JNE:
	case BPF_JSET:
		return 0x85;
	case BPF_JGT:
		return 0x87;
	case BPF_JGE:
		return 0x83;
	case BPF_JLT:
		return 0x82;
	case BPF_JLE:
		return 0x86;
	case BPF_JSGT:
		return 0x8f;
	case BPF_JSGE:
		return 0x8d;
	case BPF_JSLT:
		return 0x8c;
	default:
		return 0x8e;
	}
}

static void put_distance(struct bpf_writer *writer, const struct bpf_insn *in)
{
	put(writer, (uint32_t)(bpf_jump_offset(writer, in) - 4), 4);
}

static void put_jump(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_class(in) == BPF_JMP, sets = bpf_operation(in) == BPF_JSET;
	unsigned left = places[in->dst_reg];

	if (bpf_operation(in) == BPF_JA) {
		put(writer, 0xe9, 1);
		put_distance(writer, in);
		return;
	}
	if (bpf_has_register(in)) {
		put_pair(writer, wide, sets ? 0x85 : 0x39, places[in->src_reg], left);
	} else {
		put_pair(writer, wide, sets ? 0xf7 : 0x81, sets ? 0 : 7, left);
		put(writer, (uint32_t)in->imm, 4);
	}
	put(writer, 0x0f, 1);
	put(writer, condition_of(bpf_operation(in)), 1);
	put_distance(writer, in);
}

static void put_call(struct bpf_writer *writer, const struct bpf_insn *in)
{
	const struct bpf_compile *job = writer->job;
	uint32_t helper = (uint32_t)in->imm;

	if (job->helpers) {
		put_constant(writer, RAX, job->helpers[helper]);
		put(writer, 0xd0ff, 2); /* call *%rax */
		return;
	}
	put(writer, 0x15ff, 2); /* call *distance(%rip) */
	put(writer, (uint64_t)job->helpers_at + 8 * helper - (writer->out.length + 4), 4);
}

static void put_wide(struct bpf_writer *writer, const struct bpf_insn *in)
{
	put_constant(writer, places[in->dst_reg], bpf_constant(writer, in));
}

int bpf_compile_x86_64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
{
	static const struct bpf_cpu cpu = {
		.put_begin = put_begin,
		.put_end = put_end,
		.put_alu = put_alu,
		.put_wide = put_wide,
		.put_load = put_load,
		.put_store = put_store,
		.put_atomic = put_atomic,
		.put_jump = put_jump,
		.put_call = put_call,
	};

	return bpf_write(length, code, room, job, &cpu);
}
