/*
 * Programs as code for RISC-V with 64 bits, multiplication and atomics (RV64IMA); see compile.h.
 *
 * Registers have fixed places: r1 to r5 are the registers of arguments, r0 is the one next to them (C's result is in
 * r1's), r6 to r9 survive calls, r10 is s1.  It cannot be s0, the frame pointer, which points above the saved
 * registers.  t0 to t3 are for instructions that need more.
 *
 * The CPU's instructions on 32 bits extend the sign, a program's extend with 0: two shifts follow.  Operands of
 * comparisons of 32 bits have their signs extended, which keeps the order of numbers without sign, too.
 *
 * As in the kernel, an atomic instruction that gives a value back is fully ordered, and one that gives none is not
 * ordered.
 *
 * Context: host.  Pure.  Source: The RISC-V Instruction Set Manual, volume I; RISC-V ELF psABI.
 */
#include "arch/riscv64/isa/encode.h"

#include "compile_impl.h"

/* Registers that hold nothing from one instruction of a program to the next. */
enum { VALUE = RV_T0, ADDRESS = RV_T1, OTHER = RV_T2, FAILED = RV_T3 };

static const uint8_t places[BPF_REGISTERS] = {RV_A5, RV_A0, RV_A1, RV_A2, RV_A3, RV_A4,
					      RV_S2, RV_S3, RV_S4, RV_S5, RV_S1};

/* The saved registers, from the frame's top down, where the psABI has the first two.  The program's stack is below. */
static const struct {
	uint8_t saved, reg; /* the CPU's register, and the program's whose place it is; r0 stands for none */
} slots[] = {{RV_RA, 0},	 {RV_S0, 0},	     {RV_S1, BPF_FRAME}, {RV_S2, BPF_REG_6},
	     {RV_S3, BPF_REG_7}, {RV_S4, BPF_REG_8}, {RV_S5, BPF_REG_9}};

/* Where bare code has its return address: helpers keep it. */
enum { BARE_RETURN = RV_S6 };

enum { SLOTS = sizeof(slots) / sizeof(slots[0]), FRAME = BPF_STACK_SIZE + 64 };

/* True if the program changes what the slot saves. */
static bool has_slot(const struct bpf_writer *writer, int i)
{
	return !slots[i].reg || bpf_uses(writer, slots[i].reg);
}

static void put(struct bpf_writer *writer, uint32_t word)
{
	isa_put32(&writer->out, word);
}

/* to = the low 32 bits of from */
static void put_low(struct bpf_writer *writer, unsigned to, unsigned from)
{
	put(writer, rv_slli(to, from, 32));
	put(writer, rv_srli(to, to, 32));
}

/* to = the low 32 bits of from, with their sign above */
static void put_signed(struct bpf_writer *writer, unsigned to, unsigned from)
{
	put(writer, rv_addiw(to, from, 0));
}

/* An instruction that has a form for 32 bits. */
static void put_sized(struct bpf_writer *writer, bool wide, unsigned to, uint32_t word)
{
	put(writer, wide ? word : rv_w(word));
	if (!wide)
		put_low(writer, to, to);
}

/* An instruction that has no form for 32 bits; its operands' low halves give the low half of its result. */
static void put_cut(struct bpf_writer *writer, bool wide, unsigned to, uint32_t word)
{
	put(writer, word);
	if (!wide)
		put_low(writer, to, to);
}

/*
 * The lowest 12 bits are added, with their sign, to what remains, which is made with its lowest zeros left out and then
 * shifted.  The steps are found from the last one to the first.
 */
static void put_constant(struct bpf_writer *writer, unsigned reg, int64_t number)
{
	int32_t lows[4];
	unsigned shifts[4], count = 0;
	int32_t hi, lo;

	while (!isa_fits(number, 32)) {
		int64_t low = isa_signed((uint64_t)number, 12);
		uint64_t rest = (uint64_t)number - (uint64_t)low;

		shifts[count] = (unsigned)__builtin_ctzll(rest);
		lows[count++] = (int32_t)low;
		number = (int64_t)rest >> shifts[count - 1];
	}
	lo = (int32_t)isa_signed((uint64_t)number, 12);
	hi = (int32_t)((uint32_t)number - (uint32_t)lo);
	if (hi)
		put(writer, rv_lui(reg, hi));
	if (lo || !hi)
		put(writer, hi ? rv_addiw(reg, reg, lo) : rv_addi(reg, RV_ZERO, lo));
	while (count--) {
		put(writer, rv_slli(reg, reg, shifts[count]));
		if (lows[count])
			put(writer, rv_addi(reg, reg, lows[count]));
	}
}

static bool is_small(const struct bpf_insn *in)
{
	return !bpf_has_register(in) && isa_fits(in->imm, 12);
}

/* The register with an instruction's right operand. */
static unsigned put_operand(struct bpf_writer *writer, const struct bpf_insn *in)
{
	if (bpf_has_register(in))
		return places[in->src_reg];
	if (!in->imm)
		return RV_ZERO;
	put_constant(writer, VALUE, in->imm);
	return VALUE;
}

static void put_begin(struct bpf_writer *writer)
{
	if (writer->job->bare)
		return;
	put(writer, rv_addi(RV_SP, RV_SP, -FRAME));
	for (int i = 0; i < SLOTS; i++)
		if (has_slot(writer, i))
			put(writer, rv_sd(slots[i].saved, FRAME - 8 - 8 * i, RV_SP));
	put(writer, rv_addi(RV_S0, RV_SP, FRAME));
	if (bpf_uses(writer, BPF_FRAME))
		put(writer, rv_addi(places[BPF_FRAME], RV_SP, BPF_STACK_SIZE));
}

static void put_end(struct bpf_writer *writer)
{
	put(writer, rv_mv(RV_A0, places[0]));
	if (writer->job->bare) {
		put(writer, rv_mv(RV_RA, BARE_RETURN)); /* a CPU takes a jump by ra for a return */
		put(writer, rv_jr(RV_RA));
		return;
	}
	for (int i = 0; i < SLOTS; i++)
		if (has_slot(writer, i))
			put(writer, rv_ld(slots[i].saved, FRAME - 8 - 8 * i, RV_SP));
	put(writer, rv_addi(RV_SP, RV_SP, FRAME));
	put(writer, rv_jr(RV_RA));
}

static uint32_t division(const struct bpf_insn *in, unsigned to, unsigned left, unsigned right)
{
	if (bpf_operation(in) == BPF_MOD)
		return in->off == BPF_SIGNED ? rv_rem(to, left, right) : rv_remu(to, left, right);
	return in->off == BPF_SIGNED ? rv_div(to, left, right) : rv_divu(to, left, right);
}

/* The CPU divides as programs do, but for the quotient by 0, which is all ones. */
static void put_divide(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], right;
	uint32_t word;

	if (bpf_operation(in) == BPF_MOD || (!bpf_has_register(in) && in->imm)) {
		right = put_operand(writer, in);
		put_sized(writer, wide, to, division(in, to, to, right));
		return;
	}
	right = bpf_has_register(in) ? places[in->src_reg] : RV_ZERO;
	put(writer, wide ? rv_mv(VALUE, right) : rv_addiw(VALUE, right, 0));
	put(writer, rv_beq(VALUE, RV_ZERO, 8)); /* the quotient is the 0 in VALUE */
	word = division(in, VALUE, to, VALUE);
	put(writer, wide ? word : rv_w(word));
	if (wide)
		put(writer, rv_mv(to, VALUE));
	else
		put_low(writer, to, VALUE);
}

/* A shift of 64 bits shifts 32 bits and clears the upper half at once. */
static void put_shift_by_number(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], count = (unsigned)in->imm & (wide ? 63 : 31), above = wide ? 0 : 32;

	switch (bpf_operation(in)) {
	case BPF_LSH:
		put(writer, rv_slli(to, to, above + count));
		if (!wide)
			put(writer, rv_srli(to, to, 32));
		break;
	case BPF_RSH:
		if (!wide)
			put(writer, rv_slli(to, to, 32));
		put(writer, rv_srli(to, to, above + count));
		break;
	default:
		put_sized(writer, wide, to, rv_srai(to, to, count));
	}
}

static void put_shift(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], count = places[in->src_reg];

	if (!bpf_has_register(in)) {
		put_shift_by_number(writer, in, wide);
		return;
	}
	switch (bpf_operation(in)) {
	case BPF_LSH:
		put_sized(writer, wide, to, rv_sll(to, to, count));
		break;
	case BPF_RSH:
		put_sized(writer, wide, to, rv_srl(to, to, count));
		break;
	default:
		put_sized(writer, wide, to, rv_sra(to, to, count));
	}
}

/* All but the low bits of a register become 0; `bits` is 16 or 32. */
static void put_bits_below(struct bpf_writer *writer, unsigned reg, unsigned bits)
{
	put(writer, rv_slli(reg, reg, 64 - bits));
	put(writer, rv_srli(reg, reg, 64 - bits));
}

static void put_swap_16(struct bpf_writer *writer, unsigned reg)
{
	put(writer, rv_slli(VALUE, reg, 56));
	put(writer, rv_srli(VALUE, VALUE, 48));
	put(writer, rv_slli(reg, reg, 48));
	put(writer, rv_srli(reg, reg, 56));
	put(writer, rv_or(reg, reg, VALUE));
}

/* Neighbours of `bits` bits change places; the mask in VALUE has ones in the lower one of each two. */
static void put_exchange(struct bpf_writer *writer, unsigned reg, unsigned bits)
{
	put(writer, rv_srli(OTHER, reg, bits));
	put(writer, rv_and(OTHER, OTHER, VALUE));
	put(writer, rv_and(reg, reg, VALUE));
	put(writer, rv_slli(reg, reg, bits));
	put(writer, rv_or(reg, reg, OTHER));
}

/* Halves of the halves change places, then bytes, then the halves. */
static void put_swap_64(struct bpf_writer *writer, unsigned reg)
{
	put(writer, rv_lui(VALUE, 0x10000)); /* 0x0000ffff0000ffff */
	put(writer, rv_addi(VALUE, VALUE, -1));
	put(writer, rv_slli(OTHER, VALUE, 32));
	put(writer, rv_or(VALUE, VALUE, OTHER));
	put_exchange(writer, reg, 16);
	put(writer, rv_slli(OTHER, VALUE, 8)); /* 0x00ff00ff00ff00ff */
	put(writer, rv_xor(VALUE, VALUE, OTHER));
	put_exchange(writer, reg, 8);
	put(writer, rv_srli(OTHER, reg, 32));
	put(writer, rv_slli(reg, reg, 32));
	put(writer, rv_or(reg, reg, OTHER));
}

/* Bytes change places, which leaves 32 bits, and then their halves. */
static void put_swap_32(struct bpf_writer *writer, unsigned reg)
{
	put(writer, rv_lui(VALUE, 0xff0000)); /* 0x00ff00ff */
	put(writer, rv_addi(VALUE, VALUE, 0xff));
	put_exchange(writer, reg, 8);
	put(writer, rv_slli(VALUE, reg, 48));
	put(writer, rv_srli(VALUE, VALUE, 32));
	put(writer, rv_srli(reg, reg, 16));
	put(writer, rv_or(reg, reg, VALUE));
}

static void put_swap(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool swaps = bpf_class(in) == BPF_ALU64 || bpf_has_register(in);
	unsigned to = places[in->dst_reg];

	if (!swaps && in->imm != 64)
		put_bits_below(writer, to, (unsigned)in->imm);
	else if (swaps && in->imm == 16)
		put_swap_16(writer, to);
	else if (swaps && in->imm == 32)
		put_swap_32(writer, to);
	else if (swaps)
		put_swap_64(writer, to);
}

static void put_move_alu(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], from = places[in->src_reg];

	if (in->off == 32) {
		put_signed(writer, to, from);
	} else if (in->off) {
		put(writer, rv_slli(to, from, 64 - (unsigned)in->off));
		put(writer, rv_srai(to, to, (wide ? 64 : 32) - (unsigned)in->off));
		if (!wide)
			put(writer, rv_srli(to, to, 32));
	} else if (!bpf_has_register(in)) {
		put_constant(writer, to, wide ? in->imm : (int64_t)(uint32_t)in->imm);
	} else if (wide) {
		put(writer, rv_mv(to, from));
	} else {
		put_low(writer, to, from);
	}
}

static void put_add(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	bool subtracts = bpf_operation(in) == BPF_SUB;
	int64_t number = subtracts ? -(int64_t)in->imm : in->imm;
	unsigned to = places[in->dst_reg], right;

	if (!bpf_has_register(in) && isa_fits(number, 12)) {
		put_sized(writer, wide, to, rv_addi(to, to, (int32_t)number));
		return;
	}
	right = put_operand(writer, in);
	put_sized(writer, wide, to, subtracts ? rv_sub(to, to, right) : rv_add(to, to, right));
}

/* The bits that `left` and the instruction's right operand have in common go to `to`. */
static void put_and(struct bpf_writer *writer, const struct bpf_insn *in, unsigned to, unsigned left)
{
	put(writer, is_small(in) ? rv_andi(to, left, in->imm) : rv_and(to, left, put_operand(writer, in)));
}

static void put_bits(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg];

	switch (bpf_operation(in)) {
	case BPF_AND:
		put_and(writer, in, to, to);
		if (!wide && !(is_small(in) && in->imm >= 0))
			put_low(writer, to, to);
		break;
	case BPF_OR:
		put_cut(writer, wide, to,
			is_small(in) ? rv_ori(to, to, in->imm) : rv_or(to, to, put_operand(writer, in)));
		break;
	default:
		put_cut(writer, wide, to,
			is_small(in) ? rv_xori(to, to, in->imm) : rv_xor(to, to, put_operand(writer, in)));
	}
}

static void put_alu(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_class(in) == BPF_ALU64;
	unsigned to = places[in->dst_reg];

	switch (bpf_operation(in)) {
	case BPF_MOV:
		put_move_alu(writer, in, wide);
		break;
	case BPF_NEG:
		put_sized(writer, wide, to, rv_sub(to, RV_ZERO, to));
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
		put_sized(writer, wide, to, rv_mul(to, to, put_operand(writer, in)));
		break;
	case BPF_ADD:
	case BPF_SUB:
		put_add(writer, in, wide);
		break;
	default:
		put_bits(writer, in, wide);
	}
}

/* ADDRESS becomes a register and the offset's high part; returns its low part, which a load or store can add. */
static int32_t put_high(struct bpf_writer *writer, unsigned base, const struct bpf_insn *in)
{
	int32_t hi, lo;

	(void)rv_pcrel_split(in->off, &hi, &lo);
	put(writer, rv_lui(ADDRESS, hi));
	put(writer, rv_add(ADDRESS, ADDRESS, places[base]));
	return lo;
}

static void put_load(struct bpf_writer *writer, const struct bpf_insn *in)
{
	unsigned size = (unsigned)__builtin_ctz(bpf_access_size(in)), at = places[in->src_reg];
	int32_t offset = in->off;

	if (bpf_mode(in) != BPF_MEMSX && size != RV_DOUBLE)
		size += RV_UNSIGNED;
	if (!isa_fits(offset, 12)) {
		offset = put_high(writer, in->src_reg, in);
		at = ADDRESS;
	}
	put(writer, rv_load(size, places[in->dst_reg], offset, at));
}

/* A store of a register or, with `number`, of a constant. */
static void put_store(struct bpf_writer *writer, const struct bpf_insn *in, bool number)
{
	unsigned at = places[in->dst_reg], value = places[in->src_reg];
	int32_t offset = in->off;

	if (number && in->imm)
		put_constant(writer, VALUE, in->imm);
	if (number)
		value = in->imm ? VALUE : RV_ZERO;
	if (!isa_fits(offset, 12)) {
		offset = put_high(writer, in->dst_reg, in);
		at = ADDRESS;
	}
	put(writer, rv_store((enum rv_size)__builtin_ctz(bpf_access_size(in)), value, offset, at));
}

/*
 * The loop ends when nobody has written to the place between its load and its store.  It has only instructions with
 * which the manual promises that.  The load extends a word's sign.
 */
static void put_compare_exchange(struct bpf_writer *writer, const struct bpf_insn *in, unsigned at, enum rv_size size)
{
	unsigned expected = places[0];

	if (size == RV_WORD) {
		expected = OTHER;
		put_signed(writer, expected, places[0]);
	}
	put(writer, rv_lr(RV_RELAXED, size, VALUE, at));
	put(writer, rv_bne(VALUE, expected, 12)); /* to the fence */
	put(writer, rv_sc(RV_RELEASE, size, FAILED, places[in->src_reg], at));
	put(writer, rv_bne(FAILED, RV_ZERO, -12));
	put(writer, RV_FENCE);
	if (size == RV_WORD)
		put_low(writer, places[0], VALUE);
	else
		put(writer, rv_mv(places[0], VALUE));
}

static enum rv_amo amo_of(int32_t operation)
{
	switch (operation & ~BPF_FETCH) {
	case BPF_ADD:
		return RV_AMOADD;
	case BPF_OR:
		return RV_AMOOR;
	case BPF_AND:
		return RV_AMOAND;
	case BPF_XOR:
		return RV_AMOXOR;
	default:
		return RV_AMOSWAP;
	}
}

static void put_atomic(struct bpf_writer *writer, const struct bpf_insn *in)
{
	enum rv_size size = bpf_access_size(in) == 8 ? RV_DOUBLE : RV_WORD;
	unsigned at = places[in->dst_reg], from = places[in->src_reg];

	if (in->off && isa_fits(in->off, 12)) {
		put(writer, rv_addi(ADDRESS, at, in->off));
		at = ADDRESS;
	} else if (in->off) {
		put(writer, rv_addi(ADDRESS, ADDRESS, put_high(writer, in->dst_reg, in)));
		at = ADDRESS;
	}
	if (in->imm == BPF_CMPXCHG) {
		put_compare_exchange(writer, in, at, size);
	} else if (in->imm & BPF_FETCH) {
		put(writer, rv_amo(amo_of(in->imm), RV_ORDERED, size, from, from, at));
		if (size == RV_WORD)
			put_low(writer, from, from);
	} else {
		put(writer, rv_amo(amo_of(in->imm), RV_RELAXED, size, RV_ZERO, from, at));
	}
}

static enum rv_condition condition_of(uint8_t operation)
{
	switch (operation) {
	case BPF_JEQ:
		return RV_EQ;
	case BPF_JNE:
	case BPF_JSET:
		return RV_NE;
	case BPF_JGT: /* with the operands exchanged */
	case BPF_JLT:
		return RV_LTU;
	case BPF_JGE:
	case BPF_JLE: /* exchanged */
		return RV_GEU;
	case BPF_JSGT: /* exchanged */
	case BPF_JSLT:
		return RV_LT;
	default: /* s<= is exchanged */
		return RV_GE;
	}
}

static bool exchanges(uint8_t operation)
{
	return operation == BPF_JGT || operation == BPF_JLE || operation == BPF_JSGT || operation == BPF_JSLE;
}

static void put_branch(struct bpf_writer *writer, const struct bpf_insn *in, enum rv_condition condition, unsigned left,
		       unsigned right)
{
	if (writer->is_near[writer->at]) {
		put(writer, rv_branch(condition, left, right, bpf_jump_offset(writer, in)));
	} else {
		/* The opposite condition leads over a jump that reaches 1 MiB, three times a program's code. */
		put(writer, rv_branch(condition ^ 1, left, right, 8));
		put(writer, rv_j(bpf_jump_offset(writer, in)));
	}
}

static void put_jump(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_class(in) == BPF_JMP;
	uint8_t operation = bpf_operation(in);
	unsigned left = places[in->dst_reg], right = RV_ZERO;

	if (operation == BPF_JA) {
		put(writer, rv_j(bpf_jump_offset(writer, in)));
		return;
	}
	if (operation == BPF_JSET) {
		put_and(writer, in, VALUE, left);
		if (!wide)
			put_signed(writer, VALUE, VALUE);
		left = VALUE;
	} else {
		right = put_operand(writer, in);
		if (!wide) {
			put_signed(writer, OTHER, left);
			left = OTHER;
		}
		if (!wide && bpf_has_register(in)) {
			put_signed(writer, VALUE, right);
			right = VALUE;
		}
	}
	if (exchanges(operation))
		put_branch(writer, in, condition_of(operation), right, left);
	else
		put_branch(writer, in, condition_of(operation), left, right);
}

/* The call goes by t2, because a CPU that predicts returns takes a jump by t0 for one. */
static void put_call(struct bpf_writer *writer, const struct bpf_insn *in)
{
	const struct bpf_compile *job = writer->job;
	int32_t hi, lo;

	if (job->helpers) {
		put_constant(writer, OTHER, (int64_t)job->helpers[in->imm]);
	} else {
		(void)rv_pcrel_split(job->helpers_at + 8 * (int64_t)in->imm - (int64_t)writer->out.length, &hi, &lo);
		put(writer, rv_auipc(OTHER, hi));
		put(writer, rv_ld(OTHER, lo, OTHER));
	}
	put(writer, rv_jalr(RV_RA, OTHER, 0));
	put(writer, rv_mv(places[0], RV_A0));
}

static void put_wide(struct bpf_writer *writer, const struct bpf_insn *in)
{
	put_constant(writer, places[in->dst_reg], (int64_t)bpf_constant(writer, in));
}

int bpf_compile_riscv64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
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
		.branch_reach = 4096,
	};

	return bpf_write(length, code, room, job, &cpu);
}
