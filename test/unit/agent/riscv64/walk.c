/* The effects of a stub's instructions, riscv64 (walk.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <arch/riscv64/isa/fields.h>
#include "walk.h"

const unsigned walk_sp = RV_SP;
const int64_t walk_gates[] = {24, 0x123458};
const uint32_t walk_sigreturn = 0x08b00893;
const unsigned walk_unused_gate = 0;
const unsigned walk_leaf_unit = 0;

void walk_begin(struct walk *walk, const uint8_t *code, uint64_t pc, uint64_t caller)
{
	walk->code = code;
	walk->pc = pc;
	walk->regs[walk_sp] = walk->slot + 8;
	walk->regs[RV_RA] = caller;
	walk->regs[RV_T0] = walk->site;
}

static void put(uint8_t *room, struct arch_write write)
{
	memcpy(room + write.offset, write.bytes, write.size);
}

bool walk_begin_led(struct walk *walk, uint8_t *room, uint64_t pc, uint64_t caller)
{
	uint64_t other = pc - WALK_ROOM + ARCH_VENEER_BYTES;
	struct arch_write write;

	arch_veneer_make(room);
	assert_true(arch_veneer_lead(&write, other, pc));
	put(room, write);
	put(room, arch_head_switch(room, true));
	walk_begin(walk, room + ARCH_VENEER_BYTES, other, caller);
	return true;
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
	uint64_t *rd = &walk->regs[rv_rd(word)], rs1 = walk->regs[rv_rs1(word)];
	uint32_t opcode = rv_opcode(word);

	if (opcode == RV_LUI)
		*rd = (uint64_t)rv_imm_u(word);
	else if (opcode == RV_AUIPC)
		*rd = walk->pc + (uint64_t)rv_imm_u(word);
	else if ((opcode == RV_OP_IMM && rv_funct3(word) == 0) || (opcode == RV_LOAD && rv_funct3(word) == 3))
		*rd = rs1 + (uint64_t)rv_imm_i(word);		     /* addi; ld */
	else if (rv_opcode(word) == RV_LOAD && rv_funct3(word) == 2) /* the veneer's distance is read */
		*rd = (uint64_t)(int64_t)(int32_t)word_at(walk->code + (rs1 + (uint64_t)rv_imm_i(word) - walk->pc));
	else if (word == rv_add(rv_rd(word), rv_rs1(word), rv_rs2(word)))
		*rd = rs1 + walk->regs[rv_rs2(word)];
	else
		return false;
	return true;
}

/* jalr ra: to the body by the register that the site has filled, else to the recorder. */
static void call(struct walk *walk, uint32_t word)
{
	walk->regs[RV_RA] = walk->pc + 4;
	if (rv_rs1(word) == RV_T0) {
		walk->body = walk->regs[RV_T0];
		walk->back = walk->code + 4;
	} else {
		walk->entry = walk->regs[rv_rs1(word)];
		walk->mirrored = true;
	}
}

/*
 * A jump that leaves the stub, unless a branch leads over it: then the gate
 * lets by.  The recorder of the tracer "function" goes on to the body by itself.
 */
static bool jump(struct walk *walk, uint32_t word)
{
	uint64_t target = walk->regs[rv_rs1(word)] + (uint64_t)rv_imm_i(word);
	bool passed = rv_opcode(word_at(walk->code - 4)) == RV_BRANCH;

	*(passed ? &walk->gate_body : walk->call ? &walk->entry : &walk->exit) = target;
	if (walk->call && !passed)
		walk->body = walk->regs[RV_T0];
	return passed;
}

static void go(struct walk *walk, uint64_t distance)
{
	walk->code += distance;
	walk->pc += distance;
}

bool walk_step(struct walk *walk)
{
	uint32_t word = word_at(walk->code);
	bool stays = true;

	if (rv_opcode(word) == RV_JAL || word == rv_jr(RV_T3)) { /* to the veneer, and on */
		go(walk, rv_opcode(word) == RV_JAL ? (uint64_t)rv_imm_j(word) : walk->regs[RV_T3] - walk->pc);
		return true;
	}

	if (computes(walk, word)) {
	} else if (word == rv_bgeu(RV_SP, rv_rs2(word), 8)) {
		walk->gate = walk->regs[rv_rs2(word)];
	} else if (rv_opcode(word) == RV_JALR && rv_rd(word) == RV_RA) {
		call(walk, word);
	} else if (rv_opcode(word) == RV_JALR) {
		stays = jump(walk, word);
	} else {
		fail_msg("word %#x in a stub", word);
	}
	go(walk, 4);
	return stays;
}
