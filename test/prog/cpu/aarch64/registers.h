/*
 * All registers of AArch64, for registers.c.  A traced call keeps all of them but the flags, the link register, and
 * x16 and x17, which any call may change.
 */
#ifndef TEST_PROG_CPU_REGISTERS_H
#define TEST_PROG_CPU_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "cpu.h"

/* Offsets are used below. */
struct state {
	uint64_t x[32]; /* the last is the stack pointer */
	uint8_t v[32][16];
	uint64_t fpcr, fpsr;
} __attribute__((aligned(16)));

_Static_assert(offsetof(struct state, v) == 256 && offsetof(struct state, fpcr) == 768,
	       "the offsets in the assembler code");

enum { STATE_PUSHED = 0, ANY = 1 };
#define STATE_SP(state) ((state)->x[31])

#define STATE_PARTS                                                                                                    \
	{"general register", offsetof(struct state, x), 8, 8, 16, 0, ANY, IN | OUT},                                   \
		{"general register", offsetof(struct state, x[18]), 8, 8, 12, 18, ANY, IN | OUT},                      \
		{"vector register", offsetof(struct state, v), 16, 16, 32, 0, ANY, IN | OUT},                          \
		{"fpcr", offsetof(struct state, fpcr), 8, 8, 1, 0, ANY, IN | OUT},                                     \
		{"fpsr", offsetof(struct state, fpsr), 8, 8, 1, 0, ANY, IN | OUT},

__attribute__((used)) struct state given, seen, left, got;
static const int vector_level;

#define FROM_8_TO_15  "8, 9, 10, 11, 12, 13, 14, 15"
#define TO_15	      "0, 1, 2, 3, 4, 5, 6, 7, " FROM_8_TO_15
#define FROM_19_TO_28 "19, 20, 21, 22, 23, 24, 25, 26, 27, 28"
#define FROM_18_TO_29 "18, " FROM_19_TO_28 ", 29"

/* By x16 and x17, which are free. */
__asm__(".text\n"
	".balign 4\n"
	".macro store_all state\n"
	"	adrp	x17, \\state\n"
	"	add	x17, x17, :lo12:\\state\n"
	"	.irp i, " TO_15 ", " FROM_18_TO_29 "\n	str	x\\i, [x17, 8*\\i]\n	.endr\n"
	"	.irp i, " TO_15 ", 16, 17, " FROM_18_TO_29 ", 30, 31\n	str	q\\i, [x17, 256+16*\\i]\n	.endr\n"
	"	mov	x16, sp\n"
	"	str	x16, [x17, 8*31]\n"
	"	mrs	x16, fpcr\n"
	"	str	x16, [x17, 768]\n"
	"	mrs	x16, fpsr\n"
	"	str	x16, [x17, 776]\n"
	".endm\n"
	".macro load_all state\n"
	"	adrp	x17, \\state\n"
	"	add	x17, x17, :lo12:\\state\n"
	"	ldr	x16, [x17, 768]\n"
	"	msr	fpcr, x16\n"
	"	ldr	x16, [x17, 776]\n"
	"	msr	fpsr, x16\n"
	"	.irp i, " TO_15 ", 16, 17, " FROM_18_TO_29 ", 30, 31\n	ldr	q\\i, [x17, 256+16*\\i]\n	.endr\n"
	"	.irp i, " TO_15 ", 16, " FROM_18_TO_29 "\n	ldr	x\\i, [x17, 8*\\i]\n	.endr\n"
	"	ldr	x17, [x17, 8*17]\n"
	".endm\n"
	".globl call_with_given\n"
	".type call_with_given, %function\n"
	"call_with_given:\n"
	"	stp	x29, x30, [sp, -176]!\n"
	"	.irp i, " FROM_19_TO_28 "\n	str	x\\i, [sp, 16+8*(\\i-19)]\n	.endr\n"
	"	.irp i, " FROM_8_TO_15 "\n	str	d\\i, [sp, 96+8*(\\i-8)]\n	.endr\n"
	"	mrs	x0, fpcr\n"
	"	str	x0, [sp, 160]\n"
	"	load_all given\n"
	"	bl	probed\n"
	"	store_all got\n"
	"	ldr	x0, [sp, 160]\n"
	"	msr	fpcr, x0\n"
	"	.irp i, " FROM_19_TO_28 "\n	ldr	x\\i, [sp, 16+8*(\\i-19)]\n	.endr\n"
	"	.irp i, " FROM_8_TO_15 "\n	ldr	d\\i, [sp, 96+8*(\\i-8)]\n	.endr\n"
	"	ldp	x29, x30, [sp], 176\n"
	"	ret\n"
	".size call_with_given, . - call_with_given\n"
	".globl look_and_leave\n"
	".type look_and_leave, %function\n"
	"look_and_leave:\n"
	"	store_all seen\n"
	"	load_all left\n"
	"	ret\n"
	".size look_and_leave, . - look_and_leave\n");

CPU_NAKED(probed, "b look_and_leave")

UNTRACED static void state_learn(void)
{
}

/* Any flags, and one of the four ways to round. */
UNTRACED static void state_make_valid(struct state *state, uint64_t seed)
{
	state->fpcr = (seed >> 40 & 3) << 22;
	state->fpsr = seed >> 44 & 0x1f;
}

#endif
