/*
 * x86-64: the proof that a function is a leaf (leaf.h).  Pure.
 *
 * All of the function's bytes are decoded, one instruction after the other.  Each opcode must be one of those that are
 * known here not to touch the stack, and no operand may be rsp.  What is not known makes no leaf, and some of what is
 * known does not either: an 8-bit register that may be ah or spl, a register of VEX or EVEX whose upper bit was not
 * looked at.  Sources: Intel SDM volume 2; AMD APM volume 3.
 */
#include "leaf.h"
#include "layout.h"

enum { RSP = 4 };

/* The registers that the ModRM byte of an opcode may name. */
enum operands {
	REFUSED,  /* the opcode is not known to leave the stack alone */
	NONE,	  /* no register by ModRM; there may be no ModRM */
	MEMORY,	  /* memory alone is of interest: all else are vector registers */
	ONE,	  /* a general register or memory; the middle field is a part of the opcode */
	BOTH,	  /* the middle field may be a general register, too */
	BY_OPCODE /* the opcode's lowest bits are a general register */
};

/* The opcodes of one byte: REFUSED -, NONE ., ONE 1, BOTH 2, BY_OPCODE r; x is decided by of_one_byte(). */
static const char one_byte[] = "2222..--2222..--2222..--2222..--" /* 00 */
			       "2222..--2222..--2222..--2222..--" /* 20 */
			       "--------------------------------" /* 40 */
			       "---2-----2-2----................" /* 60 */
			       "11-122222222-2--rrrrrrrr..-.--.." /* 80 */
			       "--------------------------------" /* a0: of_one_byte() */
			       "11-.--xx--------1111---.11111111" /* c0 */
			       "....-----.-.---------.11..--.-x-" /* e0 */;

/* The opcodes behind 0f: likewise, and MEMORY v; x is decided by of_0f(). */
static const char two_byte[] = "-----------.-x--vvvvvvvvx-----xx" /* 00 */
			       "--------vv2v22vv-.--------------" /* 20 */
			       "22222222222222222vvvvvvvvvvvvvvv" /* 40 */
			       "vvvvvvvvvvvvvv2vvvvvvvvv----vv2v" /* 60 */
			       "................1111111111111111" /* 80 */
			       "--.222-----222x222-2--222-122222" /* a0 */
			       "22v222vxrrrrrrrrvvvvvvv2vvvvvvvv" /* c0 */
			       "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv-" /* e0 */;
_Static_assert(sizeof(one_byte) == 257 && sizeof(two_byte) == 257, "a letter for each opcode");

static enum operands operands_of_letter(char letter)
{
	switch (letter) {
	case '.':
		return NONE;
	case '1':
		return ONE;
	case '2':
		return BOTH;
	case 'v':
		return MEMORY;
	case 'r':
		return BY_OPCODE;
	default:
		return REFUSED;
	}
}

static enum operands of_one_byte(const struct x86_layout *in)
{
	uint8_t opcode = in->opcode;

	if (opcode >= 0xb0 && opcode <= 0xbf)
		return BY_OPCODE;
	if (opcode >= 0xa0 && opcode <= 0xaf)
		return NONE;		      /* moves from and to an address, string instructions, test */
	if (opcode == 0xc6 || opcode == 0xc7) /* not xabort, xbegin */
		return x86_reg_field(in) == 0 ? ONE : REFUSED;
	if (opcode == 0x90 && in->rep) /* pause: a loop that waits for other threads may wait for long */
		return REFUSED;
	if (opcode == 0xfe || opcode == 0xff) /* inc, dec */
		return x86_reg_field(in) < 2 ? ONE : REFUSED;
	return operands_of_letter(one_byte[opcode]);
}

/* Opcodes behind 0f with a vector register and a general one. */
static bool is_mixed(uint8_t opcode)
{
	return opcode == 0x2a || opcode == 0x2c || opcode == 0x2d || opcode == 0x50 || opcode == 0x6e ||
	       opcode == 0x7e || opcode == 0xc4 || opcode == 0xc5 || opcode == 0xd7;
}

/* Fences, ldmxcsr, stmxcsr and clflush; not what saves and loads states, nor what sets segments and shadow stacks. */
static enum operands of_0fae(const struct x86_layout *in)
{
	unsigned reg = x86_reg_field(in);

	if (in->rep || in->repne || in->data16)
		return REFUSED;
	if (x86_is_register(in))
		return reg >= 5 ? NONE : REFUSED;
	return reg == 2 || reg == 3 || reg == 7 ? ONE : REFUSED;
}

static enum operands of_0fc7(const struct x86_layout *in)
{
	unsigned reg = x86_reg_field(in);

	if (!x86_is_register(in))
		return reg == 1 ? ONE : REFUSED;     /* cmpxchg8b, cmpxchg16b */
	return reg >= 6 && !in->rep ? ONE : REFUSED; /* rdrand, rdseed */
}

/* No-ops and endbr64; not rdssp. */
static enum operands of_hint(const struct x86_layout *in)
{
	if (in->opcode == 0x1e && x86_is_register(in))
		return in->rep && in->modrm == 0xfa ? NONE : REFUSED;
	if (in->opcode == 0x1f)
		return NONE;
	return x86_is_register(in) ? REFUSED : ONE;
}

static enum operands of_0f(const struct x86_layout *in)
{
	switch (in->opcode) {
	case 0x0d: /* prefetches */
	case 0x18:
	case 0x1e:
	case 0x1f:
		return of_hint(in);
	case 0xae:
		return of_0fae(in);
	case 0xc7:
		return of_0fc7(in);
	default:
		return operands_of_letter(two_byte[in->opcode]);
	}
}

static enum operands of_0f38(uint8_t opcode)
{
	if (opcode == 0xf0 || opcode == 0xf1) /* movbe, crc32 */
		return BOTH;
	return opcode <= 0x41 || (opcode >= 0xc8 && opcode <= 0xcf) || (opcode >= 0xdb && opcode <= 0xdf) ? MEMORY
													  : REFUSED;
}

/* pextr and pinsr have a general register. */
static bool moves_one_element(uint8_t opcode)
{
	return (opcode >= 0x14 && opcode <= 0x17) || opcode == 0x20 || opcode == 0x22;
}

static enum operands of_0f3a(uint8_t opcode)
{
	if (moves_one_element(opcode))
		return BOTH;
	return (opcode >= 0x08 && opcode <= 0x0f) || opcode == 0x21 || (opcode >= 0x40 && opcode <= 0x44) ||
			       (opcode >= 0x60 && opcode <= 0x63) || opcode == 0xcc || opcode == 0xce ||
			       opcode == 0xcf || opcode == 0xdf
		       ? MEMORY
		       : REFUSED;
}

/* With VEX or EVEX.  Not those with a general register in the prefix, nor tiles and masks. */
static enum operands of_vector(const struct x86_layout *in)
{
	uint8_t opcode = in->opcode;

	switch (in->map) {
	case X86_MAP_0F:
		if (opcode == 0xae || (opcode >= 0x41 && opcode <= 0x4b))
			return REFUSED;
		return two_byte[opcode] == 'v' ? MEMORY : is_mixed(opcode) ? BOTH : REFUSED;
	case X86_MAP_0F38:
		if (opcode >= 0x7a && opcode <= 0x7c)
			return BOTH;
		if (opcode == 0x49 || opcode == 0x4b || (opcode >= 0x5c && opcode <= 0x5f) || opcode == 0x6c)
			return REFUSED;
		return opcode < 0xd0 || (opcode >= 0xdb && opcode <= 0xdf) ? MEMORY : REFUSED;
	case X86_MAP_0F3A:
		if (moves_one_element(opcode))
			return BOTH;
		return opcode < 0x30 || (opcode >= 0x38 && opcode < 0xe0) ? MEMORY : REFUSED;
	default:
		return REFUSED;
	}
}

static enum operands operands_of(const struct x86_layout *in)
{
	if (in->vector)
		return of_vector(in);
	switch (in->map) {
	case X86_MAP_ONE:
		return of_one_byte(in);
	case X86_MAP_0F:
		return of_0f(in);
	case X86_MAP_0F38:
		return of_0f38(in->opcode);
	case X86_MAP_0F3A:
		return of_0f3a(in->opcode);
	default:
		return REFUSED;
	}
}

/* True if three bits are those of rsp, and the prefix does not make another register of them. */
static bool is_sp(const struct x86_layout *in, unsigned bits, unsigned rex_bit)
{
	return (bits & 7) == RSP && !(in->rex & rex_bit);
}

/* True if the instruction may name rsp.  An index is never rsp. */
static bool names_sp(const struct x86_layout *in, const uint8_t *code, enum operands operands)
{
	if (operands == BY_OPCODE)
		return is_sp(in, in->opcode, 1);
	if (!in->has_modrm || operands == NONE)
		return false;
	if (operands == BOTH && is_sp(in, x86_reg_field(in), 4))
		return true;
	if (x86_is_register(in))
		return operands != MEMORY && is_sp(in, in->modrm, 1);
	return (in->modrm & 7) == RSP && is_sp(in, code[in->modrm_at + 1], 1);
}

static bool is_one_byte(const struct x86_layout *in)
{
	return !in->vector && in->map == X86_MAP_ONE;
}

static bool is_jump(const struct x86_layout *in)
{
	return is_one_byte(in) && (in->opcode == 0xe9 || in->opcode == 0xeb);
}

static bool is_branch(const struct x86_layout *in)
{
	if (is_one_byte(in))
		return (in->opcode & 0xf0) == 0x70 || (in->opcode & 0xfc) == 0xe0; /* jcc; loop, jrcxz */
	return !in->vector && in->map == X86_MAP_0F && (in->opcode & 0xf0) == 0x80;
}

/* ret, ud2 */
static bool is_end(const struct x86_layout *in)
{
	return is_one_byte(in) ? in->opcode == 0xc3 : !in->vector && in->map == X86_MAP_0F && in->opcode == 0x0b;
}

/* A set of offsets in the function. */
struct marks {
	uint64_t words[X86_LEAF_MAX / 64];
};

static void mark(struct marks *marks, size_t at)
{
	marks->words[at / 64] |= 1ull << at % 64;
}

/* Note where the jump, which ends at `end`, goes to; false: out of the function. */
static bool note_target(struct marks *targets, const struct x86_layout *in, const uint8_t *body, size_t end,
			size_t size)
{
	int64_t target = (int64_t)end + (in->immediate_size == 1 ? isa_signed(body[end - 1], 8)
								 : isa_signed(isa_load32(body + end - 4), 32));

	if (target < 0 || target >= (int64_t)size)
		return false;
	mark(targets, (size_t)target);
	return true;
}

bool x86_is_leaf(const uint8_t *body, size_t size)
{
	struct marks starts = {{0}}, targets = {{0}};
	bool falls = true;

	if (size > X86_LEAF_MAX)
		return false;
	for (size_t at = 0; at < size;) {
		struct x86_layout in;
		enum operands operands;
		int length = x86_parse(&in, body + at, size - at);

		if (length < 0)
			return false;
		operands = operands_of(&in);
		if (operands == REFUSED || names_sp(&in, body + at, operands))
			return false;
		mark(&starts, at);
		at += (size_t)length;
		if ((is_jump(&in) || is_branch(&in)) && !note_target(&targets, &in, body, at, size))
			return false;
		falls = !is_end(&in) && !is_jump(&in);
	}
	for (size_t i = 0; i < X86_LEAF_MAX / 64; i++)
		if (targets.words[i] & ~starts.words[i])
			return false;
	return !falls;
}
