/* The effects of a stub's instructions, aarch64 (walk.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <arch/aarch64/isa/fields.h>
#include "walk.h"

const unsigned walk_sp = A64_SP;
const int64_t walk_gates[] = {24, 0x123458};
const uint32_t walk_sigreturn = 0xd2801168;
const unsigned walk_unused_gate = 0;
const unsigned walk_leaf_unit = 0;

void walk_begin(struct walk *walk, const uint8_t *code, uint64_t pc, uint64_t caller)
{
	walk->code = code;
	walk->pc = pc;
	walk->regs[walk_sp] = walk->slot + 8;
	walk->regs[A64_X30] = caller;
}

static uint32_t word_at(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/* Instructions that give a register a value; false: another one.  What is loaded counts as its address. */
static bool computes(struct walk *walk, uint32_t word)
{
	uint64_t *rd = &walk->regs[a64_rd(word)], rn = walk->regs[a64_rn(word)],
		 rm = walk->regs[isa_field(word, 16, 5)];
	uint64_t imm12 = isa_field(word, 10, 12), imm16 = isa_field(word, 5, 16);

	if ((word & 0xffe0ffe0) == 0xaa0003e0) /* mov */
		*rd = rm;
	else if ((word & 0xffffffe0) == 0xd53bd040) /* mrs xd, tpidr_el0 */
		*rd = 0;
	else if ((word & 0xffe00000) == 0xd2800000) /* movz */
		*rd = imm16;
	else if ((word & 0xffe00000) == 0xf2a00000) /* movk, lsl 16 */
		*rd = (*rd & 0xffff) | imm16 << 16;
	else if ((word & 0xffc00000) == 0xf9400000) /* ldr xt, [xn, #offset] */
		*rd = rn + 8 * imm12;
	else if ((word & 0xffe0fc00) == 0xf8606800) /* ldr xt, [xn, xm] */
		*rd = rn + rm;
	else if ((word & 0xff000000) == 0x18000000) /* ldr wt, literal */
		*rd = walk->pc + (uint64_t)a64_imm19(word);
	else if (a64_is_adrp(word))
		*rd = a64_adrp_page(word, walk->pc);
	else
		return false;
	return true;
}

static uint64_t b_target(const uint8_t *code, uint64_t pc)
{
	uint32_t word = word_at(code);

	assert_int_equal(word >> 26, 0x05);
	return pc + (uint64_t)a64_imm26(word);
}

/* blr x16: to the recorder; that of the tracer "function" leaves the link register as the caller did. */
static void call_recorder(struct walk *walk, uint32_t word)
{
	walk->entry = walk->regs[a64_rn(word)];
	walk->mirrored = !walk->call;
	if (!walk->call)
		walk->regs[A64_X30] = walk->pc + 4;
}

bool walk_begin_led(struct walk *walk, uint8_t *room, uint64_t pc, uint64_t caller)
{
	(void)walk;
	(void)room;
	(void)pc;
	(void)caller;
	return false;
}

bool walk_step(struct walk *walk)
{
	uint32_t word = word_at(walk->code);
	bool stays = true;

	if (computes(walk, word)) {
	} else if ((word & 0xffe0ffff) == 0xeb2063ff) { /* cmp sp, xm */
		walk->gate = walk->regs[isa_field(word, 16, 5)];
	} else if ((word & 0xff00001f) == a64_b_cond(A64_LO, 0)) { /* to a jump farther down */
		walk->gate_body = b_target(walk->code + a64_imm19(word), walk->pc + (uint64_t)a64_imm19(word));
	} else if (word >> 26 == 0x05) { /* b */
		walk->body = b_target(walk->code, walk->pc);
		stays = false;
	} else if (word >> 26 == 0x25) { /* bl */
		walk->regs[A64_X30] = walk->pc + 4;
		walk->body = walk->pc + (uint64_t)a64_imm26(word);
		walk->back = walk->code + 4;
	} else if ((word & 0xfffffc1f) == 0xd63f0000) { /* blr */
		call_recorder(walk, word);
	} else if ((word & 0xfffffc1f) == 0xd61f0000) { /* br */
		walk->exit = walk->regs[a64_rn(word)];
		stays = false;
	} else {
		fail_msg("word %#x in a stub", word);
	}
	walk->code += 4;
	walk->pc += 4;
	return stays;
}
