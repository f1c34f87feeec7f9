/* The effects of a stub's instructions, x86-64 (walk.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "walk.h"

#define RIP 16

const unsigned walk_sp = 7;
const int64_t walk_gates[] = {-8, -0x123458};
const uint32_t walk_sigreturn = 0;
const unsigned walk_unused_gate = 16;
const unsigned walk_leaf_unit = 32;

void walk_begin(struct walk *walk, const uint8_t *code, uint64_t pc, uint64_t caller)
{
	walk->code = code;
	walk->regs[RIP] = walk->pc = pc;
	walk->regs[walk_sp] = walk->slot;
	walk->slot_word = caller;
}

/* Past an instruction that ends in a number of 32 bits; returns that. */
static uint64_t past(struct walk *walk, unsigned size)
{
	int32_t value;

	memcpy(&value, walk->code + size - sizeof(value), sizeof(value));
	walk->code += size;
	walk->regs[RIP] = walk->pc += size;
	return (uint64_t)(int64_t)value;
}

/* The target of an operand that counts from the next instruction. */
static uint64_t target(struct walk *walk, unsigned size)
{
	uint64_t distance = past(walk, size);

	return walk->pc + distance;
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
	const uint8_t *code = walk->code;
	unsigned prefix = code[0] == 0x2e; /* without a meaning: it fills an instruction up */

	code += prefix;
	if (!memcmp(code, "\x64\x48\x3b\x24\x25", 5)) { /* cmp %fs:gate, %rsp */
		walk->gate = past(walk, 9);
	} else if (!memcmp(code, "\x0f\x82", 2)) { /* jb body */
		walk->gate_body = target(walk, prefix + 6);
	} else if (code[0] == 0x68) { /* push word */
		past(walk, prefix + 5);
		walk->regs[walk_sp] -= 8;
	} else if (!memcmp(code, "\xff\x15", 2)) { /* call *ENTRY; it drops what was pushed, and the caller's address */
		walk->entry = target(walk, prefix + 6);
		if (walk->leaf)
			return true;
		walk->mirrored = !walk->call;
		walk->regs[walk_sp] = walk->slot + (walk->call ? 0 : 8);
	} else if (code[0] == 0xe8) {
		walk->body = target(walk, 5);
		walk->back = walk->code;
		if (!walk->leaf)
			walk->slot_word = walk->pc;
	} else if (code[0] == 0xe9) {
		walk->body = target(walk, 5);
		return false;
	} else if (!memcmp(code, "\xff\x25", 2)) { /* jmp *EXIT */
		walk->exit = target(walk, 6);
		return false;
	} else {
		fail_msg("byte %#x in a stub", code[0]);
	}
	return true;
}
