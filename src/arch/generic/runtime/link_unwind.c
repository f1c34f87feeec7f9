/*
 * How to unwind from a stub of a CPU whose calls leave the return address in
 * a register.
 *
 * Called by eh_frame.c in the control thread.  A stub never moves the stack
 * pointer, so that is the CFA.  The caller's address is at arch_mirror(CFA - 8)
 * or still in the link register.  Which, is told by
 *
 *     libgcc    the link register: it leads into a stub when a recorder has run, or the function was reached by a
 *               tail call; what a frame farther in has saved of it may be signed.  Exact at every instruction.
 *     others    the mirror: it is not 0.  LLVM's unwinder finds the pc where a frame saved the link register, and does
 *               not note it as that register's value; and the pc has no number that all unwinders know.  Exact but in
 *               the instructions before the recorder, which only signal handlers and debuggers unwind from: there it
 *               may be stale, or not be mapped yet.
 *
 * For libgcc the CFA is odd where the caller's address is in the mirror: it
 * tells frames apart by CFA, and that of the body is the same.  Then the stack
 * pointer has a rule of its own.  But not in a signal's handler: the code that
 * it returns to has no rules, libgcc knows it by its instructions and finds
 * the interrupted frame by the CFA.  Others (libunwind, debuggers) take
 * the CFA for the stack pointer, whatever a rule says.  Source: DWARF 5 2.5 and 6.4.
 */
#include <arch.h>
#include <base/mem.h>

enum {
	OP_DEREF = 0x06,
	OP_CONST4U = 0x0c,
	OP_CONST8U = 0x0e,
	OP_DUP = 0x12,
	OP_SWAP = 0x16,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_XOR = 0x27,
	OP_BRA = 0x28,
	OP_GE = 0x2a,
	OP_LT = 0x2d,
	OP_NE = 0x2e,
	OP_SKIP = 0x2f,
	OP_LIT0 = 0x30,
	OP_BREG_LINK = 0x70 + ARCH_DWARF_RETURN,
	OP_BREG_SP = 0x70 + ARCH_DWARF_SP,
	OP_DEREF_SIZE = 0x94,

	CFA_DEF_EXPRESSION = 0x0f,
	CFA_VAL_EXPRESSION = 0x16,

	LEB_MINUS_8 = 0x78,
};

static void put(struct arch_unwind_rule *rule, const void *bytes, uint8_t size)
{
	memcpy(rule->bytes + rule->size, bytes, size);
	rule->size += size;
}

#define PUT(rule, ...) put(rule, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void put_constant(struct arch_unwind_rule *rule, uint64_t value)
{
	PUT(rule, OP_CONST8U);
	put(rule, &value, sizeof(value));
}

/* Push 1 if the link register is in [lo, hi), else 0.  Comparisons are signed, and no address is negative. */
static void put_link_is_in(struct arch_unwind_rule *rule, uint64_t lo, uint64_t hi)
{
	PUT(rule, OP_BREG_LINK, 0);
	put_constant(rule, ARCH_POINTER_MASK);
	PUT(rule, OP_AND, OP_DUP);
	put_constant(rule, lo);
	PUT(rule, OP_GE, OP_SWAP);
	put_constant(rule, hi);
	PUT(rule, OP_LT, OP_AND);
}

static void put_mirror(struct arch_unwind_rule *rule)
{
	PUT(rule, OP_BREG_SP, LEB_MINUS_8);
	put_constant(rule, (uint64_t)arch_mirror(0));
	PUT(rule, OP_XOR, OP_DEREF);
}

/* Push 1 if the caller's address is in the mirror, else 0. */
static void put_is_in_mirror(struct arch_unwind_rule *rule, enum arch_unwinder unwinder, uint64_t lo, uint64_t hi)
{
	if (unwinder == ARCH_UNWINDER_LIBGCC) {
		put_link_is_in(rule, lo, hi);
	} else {
		put_mirror(rule);
		PUT(rule, OP_LIT0, OP_NE);
	}
}

/* Push 1 if the caller's address, which is in the mirror, leads to other code than a signal handler returns to. */
static void put_is_no_handler(struct arch_unwind_rule *rule)
{
	const uint32_t code = ARCH_SIGRETURN_CODE;

	put_mirror(rule);
	PUT(rule, OP_DEREF_SIZE, sizeof(code), OP_CONST4U);
	put(rule, &code, sizeof(code));
	PUT(rule, OP_NE);
}

/* Jump over what comes next up to end_skip(), if the top of the stack is not 0 (OP_BRA), or always. */
static uint8_t begin_skip(struct arch_unwind_rule *rule, uint8_t op)
{
	PUT(rule, op, 0, 0);
	return rule->size;
}

static void end_skip(struct arch_unwind_rule *rule, uint8_t begin)
{
	rule->bytes[begin - 2] = (uint8_t)(rule->size - begin);
}

static struct arch_unwind_rule cfa_rule(enum arch_unwinder unwinder, uint64_t lo, uint64_t hi)
{
	struct arch_unwind_rule rule = {CFA_DEF_EXPRESSION, -1, 0, {0}};
	uint8_t in_mirror, end;

	PUT(&rule, OP_BREG_SP, 0);
	if (unwinder == ARCH_UNWINDER_OTHER)
		return rule;
	put_is_in_mirror(&rule, unwinder, lo, hi);
	in_mirror = begin_skip(&rule, OP_BRA);
	PUT(&rule, OP_LIT0);
	end = begin_skip(&rule, OP_SKIP);
	end_skip(&rule, in_mirror);
	put_is_no_handler(&rule);
	end_skip(&rule, end);
	PUT(&rule, OP_PLUS);
	return rule;
}

static struct arch_unwind_rule return_rule(enum arch_unwinder unwinder, uint64_t lo, uint64_t hi)
{
	struct arch_unwind_rule rule = {CFA_VAL_EXPRESSION, ARCH_DWARF_RETURN, 0, {0}};
	uint8_t in_mirror, end;

	put_is_in_mirror(&rule, unwinder, lo, hi);
	in_mirror = begin_skip(&rule, OP_BRA);
	PUT(&rule, OP_BREG_LINK, 0);
	end = begin_skip(&rule, OP_SKIP);
	end_skip(&rule, in_mirror);
	put_mirror(&rule);
	end_skip(&rule, end);
	return rule;
}

unsigned arch_unwind_rules(struct arch_unwind_rule rules[ARCH_UNWIND_RULES], enum arch_unwinder unwinder, uint64_t lo,
			   uint64_t hi, bool gated)
{
	(void)gated; /* a gate changes nothing that a rule looks at */
	rules[0] = cfa_rule(unwinder, lo, hi);
	rules[1] = return_rule(unwinder, lo, hi);
	if (unwinder == ARCH_UNWINDER_OTHER)
		return 2;
	rules[2] = (struct arch_unwind_rule){CFA_VAL_EXPRESSION, ARCH_DWARF_SP, 0, {0}};
	PUT(&rules[2], OP_BREG_SP, 0);
	return 3;
}
