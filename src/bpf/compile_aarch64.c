/*
 * Programs as AArch64 code; see compile.h.
 *
 * Registers have fixed places: r1 to r5 are the registers of arguments, r0 is the one next to them (C's result is in
 * r1's), r6 to r9 survive calls, r10 is the frame pointer.  x9 to x12 are for instructions that need more.
 *
 * The code needs only ARMv8.0.  Whether a CPU has the atomic instructions of ARMv8.1 is known where the code runs, and
 * the compiler may run elsewhere; loops in their place run everywhere.  As in the kernel, an atomic instruction that
 * gives a value back is fully ordered, and one that gives none is not ordered.
 *
 * Context: host.  Pure.  Source: Arm Architecture Reference Manual, Procedure Call Standard (AAPCS64).
 */
#include "arch/aarch64/isa/encode.h"

#include "compile_impl.h"

/* Registers that hold nothing from one instruction of a program to the next. */
enum { VALUE = 9, ADDRESS, BEFORE, FAILED };

enum { FP = A64_X29, LR = A64_X30, SP = A64_SP, ZERO = A64_XZR, RESULT = A64_X0 };

static const uint8_t places[BPF_REGISTERS] = {5, 0, 1, 2, 3, 4, 19, 20, 21, 22, FP};

/* Registers of the caller lie below the program's stack, the frame record above it. */
enum { SAVED = 32, FRAME = SAVED + BPF_STACK_SIZE };

/* Where bare code has its return address, and the beginning of its stack: helpers keep them. */
enum { BARE_RETURN = 23, BARE_STACK = 24 };

static void put(struct bpf_writer *writer, uint32_t word)
{
	isa_put32(&writer->out, word);
}

/* An instruction of an encoder for x registers, on those or on w registers. */
static void put_sized(struct bpf_writer *writer, bool wide, uint32_t word)
{
	put(writer, wide ? word : a64_w(word));
}

static void put_move(struct bpf_writer *writer, bool wide, unsigned to, unsigned from)
{
	put_sized(writer, wide, a64_mov_x(to, from));
}

/* A constant is made of pieces of 16 bits, but for pieces that the first movz or movn leaves right. */
static void put_constant(struct bpf_writer *writer, bool wide, unsigned reg, uint64_t number)
{
	unsigned bits = wide ? 64 : 32, zeros = 0, ones = 0;
	bool is_first = true, inverts;

	for (unsigned shift = 0; shift < bits; shift += 16) {
		zeros += (uint16_t)(number >> shift) == 0;
		ones += (uint16_t)(number >> shift) == UINT16_MAX;
	}
	inverts = ones > zeros;
	for (unsigned shift = 0; shift < bits; shift += 16) {
		uint32_t piece = (uint16_t)(number >> shift);

		if (piece == (inverts ? UINT16_MAX : 0))
			continue;
		if (!is_first)
			put_sized(writer, wide, a64_movk_x(reg, piece, shift));
		else if (inverts)
			put_sized(writer, wide, a64_movn_x(reg, ~piece, shift));
		else
			put_sized(writer, wide, a64_movz_x(reg, piece, shift));
		is_first = false;
	}
	if (is_first)
		put_sized(writer, wide, inverts ? a64_movn_x(reg, 0, 0) : a64_movz_x(reg, 0, 0));
}

/* The number's sign is extended to 64 bits if `wide`. */
static void put_number(struct bpf_writer *writer, bool wide, unsigned reg, int32_t number)
{
	put_constant(writer, wide, reg, (uint64_t)(int64_t)number);
}

/* The register with an instruction's right operand. */
static unsigned put_operand(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	if (bpf_has_register(in))
		return places[in->src_reg];
	put_number(writer, wide, VALUE, in->imm);
	return VALUE;
}

static void put_begin(struct bpf_writer *writer)
{
	put(writer, A64_BTI_C);
	if (writer->job->bare)
		return;
	put(writer, a64_stp_pre_x(FP, LR, SP, -16));
	put(writer, a64_add_imm_x(FP, SP, 0));
	put(writer, a64_sub_imm_x(SP, SP, FRAME));
	if (bpf_uses(writer, BPF_REG_6) || bpf_uses(writer, BPF_REG_7))
		put(writer, a64_stp_x(19, 20, SP, 0));
	if (bpf_uses(writer, BPF_REG_8) || bpf_uses(writer, BPF_REG_9))
		put(writer, a64_stp_x(21, 22, SP, 16));
}

static void put_end(struct bpf_writer *writer)
{
	put_move(writer, true, RESULT, places[0]);
	if (writer->job->bare) {
		put(writer, a64_ret(BARE_RETURN));
		return;
	}
	if (bpf_uses(writer, BPF_REG_6) || bpf_uses(writer, BPF_REG_7))
		put(writer, a64_ldp_x(19, 20, SP, 0));
	if (bpf_uses(writer, BPF_REG_8) || bpf_uses(writer, BPF_REG_9))
		put(writer, a64_ldp_x(21, 22, SP, 16));
	put(writer, a64_add_imm_x(SP, FP, 0));
	put(writer, a64_ldp_post_x(FP, LR, SP, 16));
	put(writer, a64_ret(LR));
}

/* to = from + number; `to` may be used meanwhile if it is not `from`. */
static void put_sum(struct bpf_writer *writer, bool wide, unsigned to, unsigned from, int32_t number)
{
	uint32_t size = number < 0 ? 0u - (uint32_t)number : (uint32_t)number;
	unsigned spare = to == from ? VALUE : to;

	if (size < 4096) {
		put_sized(writer, wide, number < 0 ? a64_sub_imm_x(to, from, size) : a64_add_imm_x(to, from, size));
		return;
	}
	put_number(writer, wide, spare, number);
	put_sized(writer, wide, a64_add_x(to, from, spare));
}

/* The operations `and`, `or` and `xor`. */
static void put_bits(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg];
	uint64_t number = wide ? (uint64_t)(int64_t)in->imm : (uint32_t)in->imm * UINT64_C(0x100000001);
	uint8_t operation = bpf_operation(in);
	uint32_t operand;
	unsigned right;

	if (!bpf_has_register(in) && a64_bitmask(&operand, number)) {
		put_sized(writer, wide,
			  operation == BPF_AND	? a64_and_imm_x(to, to, operand)
			  : operation == BPF_OR ? a64_orr_imm_x(to, to, operand)
						: a64_eor_imm_x(to, to, operand));
		return;
	}
	right = put_operand(writer, in, wide);
	put_sized(writer, wide,
		  operation == BPF_AND	? a64_and_x(to, to, right)
		  : operation == BPF_OR ? a64_orr_x(to, to, right)
					: a64_eor_x(to, to, right));
}

/* The CPU divides by 0, and the least number by -1, as programs do. */
static void put_divide(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], right = put_operand(writer, in, wide);
	bool rest = bpf_operation(in) == BPF_MOD;
	unsigned quotient = rest ? BEFORE : to;

	if (in->off == BPF_SIGNED)
		put_sized(writer, wide, a64_sdiv_x(quotient, to, right));
	else
		put_sized(writer, wide, a64_udiv_x(quotient, to, right));
	if (rest)
		put_sized(writer, wide, a64_msub_x(to, quotient, right, to));
}

static void put_bitfield(struct bpf_writer *writer, bool wide, uint32_t word)
{
	put(writer, wide ? word : a64_bfm_w(word));
}

static void put_shift_by_number(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned to = places[in->dst_reg], last = wide ? 63 : 31, count = (unsigned)in->imm & last;

	switch (bpf_operation(in)) {
	case BPF_LSH:
		put_bitfield(writer, wide, a64_ubfm_x(to, to, (last + 1 - count) & last, last - count));
		break;
	case BPF_RSH:
		put_bitfield(writer, wide, a64_ubfm_x(to, to, count, last));
		break;
	default:
		put_bitfield(writer, wide, a64_sbfm_x(to, to, count, last));
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
		put_sized(writer, wide, a64_lslv_x(to, to, count));
		break;
	case BPF_RSH:
		put_sized(writer, wide, a64_lsrv_x(to, to, count));
		break;
	default:
		put_sized(writer, wide, a64_asrv_x(to, to, count));
	}
}

static void put_swap(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool swaps = bpf_class(in) == BPF_ALU64 || bpf_has_register(in);
	unsigned to = places[in->dst_reg];

	if (swaps)
		put(writer, in->imm == 64   ? a64_rev_x(to, to)
			    : in->imm == 32 ? a64_rev_w(to, to)
					    : a64_rev16_w(to, to));
	if (in->imm == 16)
		put_bitfield(writer, false, a64_ubfm_x(to, to, 0, 15));
	else if (in->imm == 32 && !swaps)
		put_move(writer, false, to, to);
}

static void put_move_alu(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	if (in->off)
		put_bitfield(writer, wide,
			     a64_sbfm_x(places[in->dst_reg], places[in->src_reg], 0, (unsigned)in->off - 1));
	else if (bpf_has_register(in))
		put_move(writer, wide, places[in->dst_reg], places[in->src_reg]);
	else
		put_number(writer, wide, places[in->dst_reg], in->imm);
}

static void put_add(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	bool subtracts = bpf_operation(in) == BPF_SUB;
	unsigned to = places[in->dst_reg], right;

	if (!bpf_has_register(in) && (!subtracts || in->imm != INT32_MIN)) {
		put_sum(writer, wide, to, to, subtracts ? -in->imm : in->imm);
		return;
	}
	right = put_operand(writer, in, wide);
	put_sized(writer, wide, subtracts ? a64_sub_x(to, to, right) : a64_add_x(to, to, right));
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
		put_sized(writer, wide, a64_sub_x(to, ZERO, to));
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
		put_sized(writer, wide, a64_mul_x(to, to, put_operand(writer, in, wide)));
		break;
	case BPF_ADD:
	case BPF_SUB:
		put_add(writer, in, wide);
		break;
	default:
		put_bits(writer, in, wide);
	}
}

/*
 * A load or store of `value` at a register of the program's.  The stack pointer does not move, so what lies on the
 * stack is a known distance above it (in bare code, above BARE_STACK), which an instruction holds.
 */
static void put_access(struct bpf_writer *writer, enum a64_access access, unsigned value, unsigned base,
		       const struct bpf_insn *in)
{
	unsigned shift = (unsigned)__builtin_ctz(bpf_access_size(in)), at = places[base];
	bool bare = writer->job->bare;
	int32_t offset = in->off;

	if (base == BPF_FRAME) {
		at = bare ? BARE_STACK : SP;
		offset += bare ? BPF_STACK_SIZE : FRAME;
	}

	if (offset >= 0 && !(offset & ((1 << shift) - 1)) && offset >> shift < 4096) {
		put(writer, a64_access_scaled(access, value, at, (uint32_t)offset >> shift));
	} else if (isa_fits(offset, 9)) {
		put(writer, a64_access_near(access, value, at, offset));
	} else {
		put_sum(writer, true, ADDRESS, places[base], in->off);
		put(writer, a64_access_scaled(access, value, ADDRESS, 0));
	}
}

static void put_load(struct bpf_writer *writer, const struct bpf_insn *in)
{
	static const enum a64_access zero_extended[] = {A64_LDRB, A64_LDRH, A64_LDR_W, A64_LDR_X},
				     sign_extended[] = {A64_LDRSB, A64_LDRSH, A64_LDRSW};
	unsigned index = (unsigned)__builtin_ctz(bpf_access_size(in));

	put_access(writer, bpf_mode(in) == BPF_MEMSX ? sign_extended[index] : zero_extended[index], places[in->dst_reg],
		   in->src_reg, in);
}

/* A store of a register or, with `number`, of a constant. */
static void put_store(struct bpf_writer *writer, const struct bpf_insn *in, bool number)
{
	static const enum a64_access stores[] = {A64_STRB, A64_STRH, A64_STR_W, A64_STR_X};
	unsigned value = number ? in->imm ? VALUE : ZERO : places[in->src_reg];

	if (value == VALUE)
		put_number(writer, bpf_access_size(in) == 8, VALUE, in->imm);
	put_access(writer, stores[__builtin_ctz(bpf_access_size(in))], value, in->dst_reg, in);
}

/* Returns the register with the number that replaces BEFORE: VALUE, or one of the program's. */
static unsigned put_change(struct bpf_writer *writer, const struct bpf_insn *in)
{
	unsigned from = places[in->src_reg];

	switch (in->imm & ~BPF_FETCH) {
	case BPF_ADD:
		put(writer, a64_add_x(VALUE, BEFORE, from));
		return VALUE;
	case BPF_OR:
		put(writer, a64_orr_x(VALUE, BEFORE, from));
		return VALUE;
	case BPF_AND:
		put(writer, a64_and_x(VALUE, BEFORE, from));
		return VALUE;
	case BPF_XOR:
		put(writer, a64_eor_x(VALUE, BEFORE, from));
		return VALUE;
	default:
		return from;
	}
}

/* The loop ends when nobody has written to the place between its load and its store. */
static void put_atomic(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_access_size(in) == 8, gives = in->imm & BPF_FETCH;
	unsigned at = places[in->dst_reg], value;
	size_t again;

	if (in->off) {
		put_sum(writer, true, ADDRESS, at, in->off);
		at = ADDRESS;
	}
	again = writer->out.length;
	put(writer, a64_ldxr(wide, BEFORE, at));
	if (in->imm == BPF_CMPXCHG) {
		put_sized(writer, wide, a64_cmp_x(BEFORE, places[0]));
		put(writer, a64_b_cond(A64_NE, 12)); /* to the barrier */
	}
	value = put_change(writer, in);
	put(writer, gives ? a64_stlxr(wide, FAILED, value, at) : a64_stxr(wide, FAILED, value, at));
	put(writer, a64_w(a64_cbnz_x(FAILED, (int64_t)again - (int64_t)writer->out.length)));
	if (!gives)
		return;
	put(writer, A64_DMB_ISH);
	put_move(writer, wide, in->imm == BPF_CMPXCHG ? places[0] : places[in->src_reg], BEFORE);
}

static enum a64_condition condition_of(uint8_t operation)
{
	switch (operation) {
	case BPF_JEQ:
		return A64_EQ;
	case BPF_JNE:
	case BPF_JSET:
		return A64_NE;
	case BPF_JGT:
		return A64_HI;
	case BPF_JGE:
		return A64_HS;
	case BPF_JLT:
		return A64_LO;
	case BPF_JLE:
		return A64_LS;
	case BPF_JSGT:
		return A64_GT;
	case BPF_JSGE:
		return A64_GE;
	case BPF_JSLT:
		return A64_LT;
	default:
		return A64_LE;
	}
}

static void put_test(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	uint64_t number = wide ? (uint64_t)(int64_t)in->imm : (uint32_t)in->imm * UINT64_C(0x100000001);
	unsigned left = places[in->dst_reg];
	uint32_t operand;

	if (!bpf_has_register(in) && a64_bitmask(&operand, number))
		put_sized(writer, wide, a64_tst_imm_x(left, operand));
	else
		put_sized(writer, wide, a64_tst_x(left, put_operand(writer, in, wide)));
}

static void put_compare(struct bpf_writer *writer, const struct bpf_insn *in, bool wide)
{
	unsigned left = places[in->dst_reg];

	if (bpf_has_register(in) || in->imm <= -4096 || in->imm >= 4096)
		put_sized(writer, wide, a64_cmp_x(left, put_operand(writer, in, wide)));
	else if (in->imm < 0)
		put_sized(writer, wide, a64_cmn_imm_x(left, (uint32_t)-in->imm));
	else
		put_sized(writer, wide, a64_cmp_imm_x(left, (uint32_t)in->imm));
}

static void put_jump(struct bpf_writer *writer, const struct bpf_insn *in)
{
	bool wide = bpf_class(in) == BPF_JMP, with_zero = !bpf_has_register(in) && !in->imm;
	uint8_t operation = bpf_operation(in);
	unsigned left = places[in->dst_reg];

	if (operation == BPF_JA) {
		put(writer, a64_b(bpf_jump_offset(writer, in)));
	} else if (with_zero && operation == BPF_JEQ) {
		put_sized(writer, wide, a64_cbz_x(left, bpf_jump_offset(writer, in)));
	} else if (with_zero && operation == BPF_JNE) {
		put_sized(writer, wide, a64_cbnz_x(left, bpf_jump_offset(writer, in)));
	} else {
		if (operation == BPF_JSET)
			put_test(writer, in, wide);
		else
			put_compare(writer, in, wide);
		put(writer, a64_b_cond(condition_of(operation), bpf_jump_offset(writer, in)));
	}
}

static void put_call(struct bpf_writer *writer, const struct bpf_insn *in)
{
	const struct bpf_compile *job = writer->job;
	int64_t table = job->helpers_at - (int64_t)writer->out.length;

	if (job->helpers) {
		put_constant(writer, true, VALUE, job->helpers[in->imm]);
	} else {
		/* The table begins a page, so its distance tells where in a page this is. */
		put(writer, a64_adrp(VALUE, a64_page_offset(0 - (uint64_t)table, 0)));
		put(writer, a64_ldr_x(VALUE, VALUE, 8 * (uint32_t)in->imm));
	}
	put(writer, a64_blr(VALUE));
	put_move(writer, true, places[0], RESULT);
}

static void put_wide(struct bpf_writer *writer, const struct bpf_insn *in)
{
	put_constant(writer, true, places[in->dst_reg], bpf_constant(writer, in));
}

/* A program's code has 320 KiB at most; conditional branches reach 1 MiB. */
int bpf_compile_aarch64(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job)
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
