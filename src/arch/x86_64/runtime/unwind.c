/*
 * How to unwind from a stub of x86-64, exact at every instruction.
 *
 * Called by generic/runtime/eh_frame.c in the control thread.  The pc's low bits tell at
 * which instruction of its stub a thread is, and so what the stub has done to the stack:
 * stubs lie at multiples of a power of two (isa/stub_size.h).  The bytes at the pc
 * tell nothing, for a debugger's breakpoint may be one of them.  S is the slot
 * of the caller's address, as in entry.S:
 *
 *     at                               rsp     the caller's address
 *     cmp, jb, push $entry, jmp body   S       in S
 *     call *ENTRY                      S - 8   in S
 *     call body, B_f: push $exit       S + 8   at arch_mirror(S)
 *     jmp *EXIT                        S       at arch_mirror(S)
 *     a leaf's call *LEAF_ENTRY        S - 8   in S
 *     a leaf's call body, B_leaf       S - 8   in S
 *
 * There are two sets of rules, for libgcc tells frames apart by CFA, and that of the
 * body that a stub has called is S + 8; that of a leaf's body is S - 8, and needs no such care.  In the table for
 * libgcc the CFA is odd where the caller's address is in the mirror, and rsp has a rule of its own. Others (libunwind,
 * debuggers) take the CFA for the caller's rsp, whatever a rule says: for them it is S + 8.  Sources: DWARF 5 2.5
 * and 6.4, System V x86-64 psABI 3.7.
 */
#include <arch.h>
#include <arch/x86_64/isa/stub_size.h>
#include <base/mem.h>

enum {
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST8U = 0x0e,
	OP_DUP = 0x12,
	OP_SWAP = 0x16,
	OP_AND = 0x1a,
	OP_MINUS = 0x1c,
	OP_MUL = 0x1e,
	OP_PLUS = 0x22,
	OP_XOR = 0x27,
	OP_EQ = 0x29,
	OP_LIT0 = 0x30,
	OP_BREG_RSP = 0x70 + 7,
	OP_BREG_RIP = 0x70 + 16,

	CFA_EXPRESSION = 0x10,
	CFA_DEF_EXPRESSION = 0x0f,
	CFA_VAL_EXPRESSION = 0x16,
	REG_RSP = 7,
	REG_RIP = ARCH_DWARF_RETURN,
};

/* Push 1 if the pc is at that place of its stub, else 0. */
#define AT(place, unit, gate) OP_BREG_RIP, 0, OP_CONST1U, (unit)-1, OP_AND, OP_CONST1U, (gate) + (place), OP_EQ
#define TIMES(n)	      OP_LIT0 + (n), OP_MUL

/* S + 8, and 1 more where the caller's address is in the mirror. */
#define CFA_AND_PLACE(unit, gate)                                                                                      \
	OP_BREG_RSP, 8, AT(X86_STUB_AT_ENTRY, unit, gate), AT(X86_STUB_AT_CALL_ENTRY, unit, gate), OP_PLUS,            \
		AT(X86_STUB_AT_LEAF_BODY, unit, gate), OP_PLUS, AT(X86_STUB_AT_LEAF_BACK, unit, gate), OP_PLUS,        \
		TIMES(8), OP_PLUS, AT(X86_STUB_AT_EXIT, unit, gate), OP_PLUS, AT(X86_STUB_AT_BODY, unit, gate),        \
		AT(X86_STUB_AT_BACK, unit, gate), OP_PLUS, TIMES(7), OP_MINUS
#define DROP_PLACE OP_CONST1S, 0xfe, OP_AND
/* From S and the value above, the address of the caller's address. */
#define CHOOSE_BY_PLACE OP_LIT0 + 1, OP_AND, OP_CONST8U, MIRROR_MASK_BYTES, OP_MUL, OP_XOR

#define CFA_PLAIN      CFA_AND_PLACE(X86_STUB_UNIT, 0)
#define CFA_GATED      CFA_AND_PLACE(X86_STUB_UNIT_GATED, X86_STUB_GATE)
#define OTHER_RIP(cfa) OP_LIT0 + 8, OP_MINUS, cfa, CHOOSE_BY_PLACE

/* The first index of these rules: 1 if the region's stubs have room for a gate, else 0. */
static const uint8_t libgcc_cfa[2][sizeof((uint8_t[]){CFA_PLAIN})] = {{CFA_PLAIN}, {CFA_GATED}};
static const uint8_t libgcc_rsp[] = {DROP_PLACE};
static const uint8_t libgcc_rip[] = {OP_DUP, OP_LIT0 + 8, OP_MINUS, DROP_PLACE, OP_SWAP, CHOOSE_BY_PLACE};
static const uint8_t other_cfa[2][sizeof((uint8_t[]){CFA_PLAIN, DROP_PLACE})] = {{CFA_PLAIN, DROP_PLACE},
										 {CFA_GATED, DROP_PLACE}};
static const uint8_t other_rip[2][sizeof((uint8_t[]){OTHER_RIP(CFA_PLAIN)})] = {{OTHER_RIP(CFA_PLAIN)},
										{OTHER_RIP(CFA_GATED)}};
_Static_assert(sizeof(other_rip[0]) <= sizeof(((struct arch_unwind_rule *)0)->bytes), "the longest");

static struct arch_unwind_rule rule(uint8_t rule, int8_t reg, const uint8_t *expression, uint8_t size)
{
	struct arch_unwind_rule made = {rule, reg, size, {0}};

	memcpy(made.bytes, expression, size);
	return made;
}

unsigned arch_unwind_rules(struct arch_unwind_rule rules[ARCH_UNWIND_RULES], enum arch_unwinder unwinder, uint64_t lo,
			   uint64_t hi, bool gated)
{
	(void)lo;
	(void)hi;
	if (unwinder == ARCH_UNWINDER_OTHER) {
		rules[0] = rule(CFA_DEF_EXPRESSION, -1, other_cfa[gated], sizeof(other_cfa[gated]));
		rules[1] = rule(CFA_EXPRESSION, REG_RIP, other_rip[gated], sizeof(other_rip[gated]));
		return 2;
	}
	rules[0] = rule(CFA_DEF_EXPRESSION, -1, libgcc_cfa[gated], sizeof(libgcc_cfa[gated]));
	rules[1] = rule(CFA_VAL_EXPRESSION, REG_RSP, libgcc_rsp, sizeof(libgcc_rsp));
	rules[2] = rule(CFA_EXPRESSION, REG_RIP, libgcc_rip, sizeof(libgcc_rip));
	return 3;
}
