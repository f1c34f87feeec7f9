/*
 * Ranges of numbers; see range.h.
 *
 * Bits are tracked as the kernel tracks them (Documentation/bpf/verifier.rst, "Register value tracking"): a sum's bit
 * is known if both operands' bits and the carry into it are.
 */
#include "isa.h"
#include "range.h"

#define LOW32 UINT64_C(0xffffffff)
#define SIGN  (UINT64_C(1) << 63)

struct bpf_range bpf_range_all(void)
{
	return (struct bpf_range){0, UINT64_MAX, INT64_MIN, INT64_MAX, 0, UINT64_MAX};
}

struct bpf_range bpf_range_of(uint64_t number)
{
	return (struct bpf_range){number, number, (int64_t)number, (int64_t)number, number, 0};
}

bool bpf_range_is_empty(const struct bpf_range *range)
{
	return range->umin > range->umax || range->smin > range->smax || range->bits & range->unknown;
}

bool bpf_range_holds(const struct bpf_range *range, uint64_t number)
{
	return number >= range->umin && number <= range->umax && (int64_t)number >= range->smin &&
	       (int64_t)number <= range->smax && (number & ~range->unknown) == range->bits;
}

bool bpf_range_has(const struct bpf_range *outer, const struct bpf_range *inner)
{
	return outer->umin <= inner->umin && outer->umax >= inner->umax && outer->smin <= inner->smin &&
	       outer->smax >= inner->smax && !(inner->unknown & ~outer->unknown) &&
	       outer->bits == (inner->bits & ~outer->unknown);
}

static void clamp(struct bpf_range *range, uint64_t umin, uint64_t umax, int64_t smin, int64_t smax)
{
	range->umin = range->umin > umin ? range->umin : umin;
	range->umax = range->umax < umax ? range->umax : umax;
	range->smin = range->smin > smin ? range->smin : smin;
	range->smax = range->smax < smax ? range->smax : smax;
}

/* The bits that all numbers from lo to hi have in common. */
static void common_bits(uint64_t lo, uint64_t hi, uint64_t *bits, uint64_t *unknown)
{
	uint64_t differ = lo ^ hi;

	*unknown = differ ? UINT64_MAX >> __builtin_clzll(differ) : 0;
	*bits = lo & ~*unknown;
}

/* Let each of the three descriptions learn from the others. */
static struct bpf_range settle(struct bpf_range range)
{
	for (int pass = 0; pass < 2 && !bpf_range_is_empty(&range); pass++) {
		uint64_t bits, unknown;

		clamp(&range, range.bits, range.bits | range.unknown, (int64_t)(range.bits | (range.unknown & SIGN)),
		      (int64_t)(range.bits | (range.unknown & ~SIGN)));
		if ((range.smin ^ range.smax) >= 0) /* one sign: both orders are the same */
			clamp(&range, (uint64_t)range.smin, (uint64_t)range.smax, INT64_MIN, INT64_MAX);
		if ((int64_t)(range.umin ^ range.umax) >= 0)
			clamp(&range, 0, UINT64_MAX, (int64_t)range.umin, (int64_t)range.umax);
		if (range.umin > range.umax)
			break;
		common_bits(range.umin, range.umax, &bits, &unknown);
		if ((bits ^ range.bits) & ~unknown & ~range.unknown) {
			range.umin = UINT64_MAX; /* empty */
			range.umax = 0;
			break;
		}
		range.bits |= bits;
		range.unknown &= unknown;
	}
	return range;
}

static struct bpf_range from_unsigned(uint64_t umin, uint64_t umax)
{
	struct bpf_range range = bpf_range_all();

	range.umin = umin;
	range.umax = umax;
	return settle(range);
}

struct bpf_range bpf_range_bits(unsigned bits)
{
	return from_unsigned(0, bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX);
}

struct bpf_range bpf_range_signed(unsigned bits)
{
	struct bpf_range range = bpf_range_all();

	range.smin = -(INT64_C(1) << (bits - 1));
	range.smax = (INT64_C(1) << (bits - 1)) - 1;
	return settle(range);
}

/* The lower 32 bits of all numbers, with zeros above. */
static struct bpf_range lower_half(const struct bpf_range *range)
{
	struct bpf_range low = bpf_range_all();

	low.bits = range->bits & LOW32;
	low.unknown = range->unknown & LOW32;
	if (range->umin >> 32 == range->umax >> 32) {
		low.umin = range->umin & LOW32;
		low.umax = range->umax & LOW32;
	} else {
		low.umin = 0;
		low.umax = LOW32;
	}
	return settle(low);
}

static struct bpf_range add(const struct bpf_range *a, const struct bpf_range *b)
{
	struct bpf_range sum = bpf_range_all();
	uint64_t known = a->bits + b->bits, most = a->unknown + b->unknown, carries = (known + most) ^ known;

	sum.unknown = carries | a->unknown | b->unknown;
	sum.bits = known & ~sum.unknown;
	if (__builtin_add_overflow(a->umax, b->umax, &sum.umax)) {
		sum.umin = 0;
		sum.umax = UINT64_MAX;
	} else {
		sum.umin = a->umin + b->umin;
	}
	if (__builtin_add_overflow(a->smin, b->smin, &sum.smin) ||
	    __builtin_add_overflow(a->smax, b->smax, &sum.smax)) {
		sum.smin = INT64_MIN;
		sum.smax = INT64_MAX;
	}
	return settle(sum);
}

static struct bpf_range subtract(const struct bpf_range *a, const struct bpf_range *b)
{
	struct bpf_range rest = bpf_range_all();
	uint64_t known = a->bits - b->bits, borrows = (known + a->unknown) ^ (known - b->unknown);

	rest.unknown = borrows | a->unknown | b->unknown;
	rest.bits = known & ~rest.unknown;
	if (a->umin >= b->umax) {
		rest.umin = a->umin - b->umax;
		rest.umax = a->umax - b->umin;
	}
	if (__builtin_sub_overflow(a->smin, b->smax, &rest.smin) ||
	    __builtin_sub_overflow(a->smax, b->smin, &rest.smax)) {
		rest.smin = INT64_MIN;
		rest.smax = INT64_MAX;
	}
	return settle(rest);
}

static struct bpf_range multiply(const struct bpf_range *a, const struct bpf_range *b)
{
	uint64_t most;

	return __builtin_mul_overflow(a->umax, b->umax, &most) ? bpf_range_all()
							       : from_unsigned(a->umin * b->umin, most);
}

static struct bpf_range bitwise(uint8_t operation, const struct bpf_range *a, const struct bpf_range *b)
{
	struct bpf_range range = bpf_range_all();
	uint64_t a_ones = a->bits | a->unknown, b_ones = b->bits | b->unknown, ones;

	switch (operation) {
	case BPF_AND:
		range.bits = a->bits & b->bits;
		ones = a_ones & b_ones;
		range.umax = a->umax < b->umax ? a->umax : b->umax;
		break;
	case BPF_OR:
		range.bits = a->bits | b->bits;
		ones = a_ones | b_ones;
		range.umin = a->umin > b->umin ? a->umin : b->umin;
		break;
	default:
		range.unknown = a->unknown | b->unknown;
		range.bits = (a->bits ^ b->bits) & ~range.unknown;
		return settle(range);
	}
	range.unknown = ones & ~range.bits;
	return settle(range);
}

static struct bpf_range shift_left(const struct bpf_range *a, const struct bpf_range *b, unsigned width)
{
	struct bpf_range range = bpf_range_all();
	unsigned count = (unsigned)b->umin & (width - 1);

	if (!bpf_range_is_one(b))
		return range;
	range.bits = a->bits << count;
	range.unknown = a->unknown << count;
	if (a->umax <= UINT64_MAX >> count) {
		range.umin = a->umin << count;
		range.umax = a->umax << count;
	}
	return settle(range);
}

static struct bpf_range shift_right(const struct bpf_range *a, const struct bpf_range *b, unsigned width)
{
	unsigned count = (unsigned)b->umin & (width - 1);
	struct bpf_range range;

	if (!bpf_range_is_one(b))
		return from_unsigned(0, a->umax);
	range = from_unsigned(a->umin >> count, a->umax >> count);
	range.bits |= a->bits >> count;
	range.unknown &= a->unknown >> count;
	return settle(range);
}

/* The sign is copied into the bits that are shifted in. */
static struct bpf_range shift_signed(const struct bpf_range *a, const struct bpf_range *b, unsigned width)
{
	struct bpf_range range = bpf_range_all();
	unsigned count = (unsigned)b->umin & (width - 1);

	if (width == 32)
		return a->umax <= INT32_MAX ? shift_right(a, b, width) : range;
	if (!bpf_range_is_one(b))
		return a->smin >= 0 ? from_unsigned(0, a->umax) : range;
	range.smin = a->smin >> count;
	range.smax = a->smax >> count;
	return settle(range);
}

static struct bpf_range divide(const struct bpf_insn *in, const struct bpf_range *a, const struct bpf_range *b)
{
	bool rest = bpf_operation(in) == BPF_MOD;

	if (in->off == BPF_SIGNED)
		return bpf_range_all();
	if (!bpf_range_is_one(b) || !b->umin)
		return from_unsigned(0, a->umax); /* the divisor may be 0, and the rest is the dividend then */
	if (!rest)
		return from_unsigned(a->umin / b->umin, a->umax / b->umin);
	if (a->umax < b->umin)
		return *a;
	return from_unsigned(0, b->umin - 1);
}

static struct bpf_range extend(const struct bpf_range *a, unsigned bits)
{
	if (a->smin >= -(INT64_C(1) << (bits - 1)) && a->smax < INT64_C(1) << (bits - 1))
		return *a;
	return bpf_range_signed(bits);
}

static struct bpf_range compute(const struct bpf_insn *in, const struct bpf_range *a, const struct bpf_range *b,
				unsigned width)
{
	const struct bpf_range zero = bpf_range_of(0);

	switch (bpf_operation(in)) {
	case BPF_ADD:
		return add(a, b);
	case BPF_SUB:
		return subtract(a, b);
	case BPF_NEG:
		return subtract(&zero, a);
	case BPF_MUL:
		return multiply(a, b);
	case BPF_AND:
	case BPF_OR:
	case BPF_XOR:
		return bitwise(bpf_operation(in), a, b);
	case BPF_LSH:
		return shift_left(a, b, width);
	case BPF_RSH:
		return shift_right(a, b, width);
	case BPF_ARSH:
		return shift_signed(a, b, width);
	case BPF_DIV:
	case BPF_MOD:
		return divide(in, a, b);
	default:
		return in->off ? extend(b, (unsigned)in->off) : *b;
	}
}

struct bpf_range bpf_range_alu(const struct bpf_insn *in, const struct bpf_range *left, const struct bpf_range *right)
{
	struct bpf_range a, b, result;

	if (bpf_range_is_one(left) && bpf_range_is_one(right))
		return bpf_range_of(bpf_alu(in, left->umin, right->umin));
	if (bpf_operation(in) == BPF_END)
		return bpf_range_bits((unsigned)in->imm);
	if (bpf_class(in) == BPF_ALU64)
		return compute(in, left, right, 64);
	a = lower_half(left);
	b = lower_half(right);
	result = compute(in, &a, &b, 32);
	return lower_half(&result);
}

static void know_equal(struct bpf_range *a, struct bpf_range *b)
{
	uint64_t known = ~a->unknown & ~b->unknown;

	clamp(a, b->umin, b->umax, b->smin, b->smax);
	if ((a->bits ^ b->bits) & known) {
		a->umin = UINT64_MAX;
		a->umax = 0;
	} else {
		a->bits |= b->bits;
		a->unknown &= b->unknown;
	}
	*b = *a;
}

/* The range a loses b's number, if b has one number, and that is an end of a. */
static void know_different(struct bpf_range *a, const struct bpf_range *b)
{
	if (!bpf_range_is_one(b))
		return;
	if (bpf_range_is_one(a) && a->umin == b->umin) {
		a->umin = UINT64_MAX;
		a->umax = 0;
		return;
	}
	a->umin += a->umin == b->umin;
	a->umax -= a->umax == b->umin;
	a->smin += a->smin == (int64_t)b->umin;
	a->smax -= a->smax == (int64_t)b->umin;
}

/* Both ranges shrink to numbers with a < b, or a <= b with `equal`, compared without sign. */
static void know_below(struct bpf_range *a, struct bpf_range *b, bool equal)
{
	uint64_t amin = a->umin, bmax = b->umax;

	if (!equal && (bmax == 0 || amin == UINT64_MAX)) {
		a->umin = UINT64_MAX;
		a->umax = 0;
		return;
	}
	clamp(a, 0, equal ? bmax : bmax - 1, INT64_MIN, INT64_MAX);
	clamp(b, equal ? amin : amin + 1, UINT64_MAX, INT64_MIN, INT64_MAX);
}

static void know_less(struct bpf_range *a, struct bpf_range *b, bool equal)
{
	int64_t amin = a->smin, bmax = b->smax;

	if (!equal && (bmax == INT64_MIN || amin == INT64_MAX)) {
		a->umin = UINT64_MAX;
		a->umax = 0;
		return;
	}
	clamp(a, 0, UINT64_MAX, INT64_MIN, equal ? bmax : bmax - 1);
	clamp(b, 0, UINT64_MAX, equal ? amin : amin + 1, INT64_MAX);
}

/* The range a shrinks to numbers that have bits of b's number set, or none of them. */
static void know_set(struct bpf_range *a, const struct bpf_range *b, bool are_set)
{
	if (!bpf_range_is_one(b))
		return;
	if (!are_set && a->bits & b->umin) {
		a->umin = UINT64_MAX;
		a->umax = 0;
	} else if (!are_set) {
		a->unknown &= ~b->umin;
	} else if (!((a->bits | a->unknown) & b->umin)) {
		a->umin = UINT64_MAX;
		a->umax = 0;
	} else if (!(b->umin & (b->umin - 1))) {
		a->bits |= b->umin;
		a->unknown &= ~b->umin;
	}
}

static void know(uint8_t operation, bool jumps, struct bpf_range *a, struct bpf_range *b)
{
	switch (operation) {
	case BPF_JEQ:
	case BPF_JNE:
		if ((operation == BPF_JEQ) == jumps) {
			know_equal(a, b);
		} else {
			struct bpf_range before = *a;

			know_different(a, b);
			know_different(b, &before);
		}
		break;
	case BPF_JLT:
	case BPF_JGE:
		if ((operation == BPF_JLT) == jumps)
			know_below(a, b, false);
		else
			know_below(b, a, true);
		break;
	case BPF_JGT:
	case BPF_JLE:
		if ((operation == BPF_JGT) == jumps)
			know_below(b, a, false);
		else
			know_below(a, b, true);
		break;
	case BPF_JSLT:
	case BPF_JSGE:
		if ((operation == BPF_JSLT) == jumps)
			know_less(a, b, false);
		else
			know_less(b, a, true);
		break;
	case BPF_JSGT:
	case BPF_JSLE:
		if ((operation == BPF_JSGT) == jumps)
			know_less(b, a, false);
		else
			know_less(a, b, true);
		break;
	default:
		know_set(a, b, jumps);
	}
	*a = settle(*a);
	*b = settle(*b);
}

/* The range shrinks to numbers whose lower half is in `low`. */
static void know_lower_half(struct bpf_range *range, const struct bpf_range *low)
{
	if (range->umax <= LOW32 || bpf_range_is_empty(low)) {
		*range = *low;
		return;
	}
	range->bits = (range->bits & ~LOW32) | low->bits;
	range->unknown = (range->unknown & ~LOW32) | low->unknown;
	*range = settle(*range);
}

static bool is_signed_jump(uint8_t operation)
{
	return operation == BPF_JSLT || operation == BPF_JSLE || operation == BPF_JSGT || operation == BPF_JSGE;
}

void bpf_range_decide(const struct bpf_insn *in, bool jumps, struct bpf_range *left, struct bpf_range *right)
{
	uint8_t operation = bpf_operation(in);
	struct bpf_range a = *left, b = *right;
	uint64_t most = is_signed_jump(operation) ? INT32_MAX : LOW32;

	if (bpf_class(in) == BPF_JMP) {
		know(operation, jumps, left, right);
		return;
	}
	/* Lower halves are in the order of numbers of 64 bits if they have no sign, or none is negative. */
	a = lower_half(left);
	b = lower_half(right);
	if (a.umax > most || b.umax > most)
		return;
	know(operation, jumps, &a, &b);
	know_lower_half(left, &a);
	know_lower_half(right, &b);
}
