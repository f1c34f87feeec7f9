/*
 * All registers of RISC-V 64, for registers.c.  A traced call keeps what an argument, the static chain (t2) or a caller
 * may be in; t0, t1 and t3 to t6 are free at any entry and any return, and t2 at a return.
 */
#ifndef TEST_PROG_CPU_REGISTERS_H
#define TEST_PROG_CPU_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "../../truth.h"

/* Offsets are used below. */
struct state {
	uint64_t x[32], f[32];
	uint64_t fcsr;
};

_Static_assert(offsetof(struct state, f) == 256 && offsetof(struct state, fcsr) == 512,
	       "the offsets in the assembler code");

enum { STATE_PUSHED = 0, ANY = 1 };
#define STATE_SP(state) ((state)->x[2])

#define STATE_PARTS                                                                                                    \
	{"global or thread pointer", offsetof(struct state, x[3]), 8, 8, 2, 3, ANY, OVER},                             \
		{"static chain", offsetof(struct state, x[7]), 8, 8, 1, 7, ANY, IN},                                   \
		{"general register", offsetof(struct state, x[8]), 8, 8, 20, 8, ANY, IN | OUT},                        \
		{"floating-point register", offsetof(struct state, f), 8, 8, 32, 0, ANY, IN | OUT},                    \
		{"fcsr", offsetof(struct state, fcsr), 8, 8, 1, 0, ANY, IN | OUT},

__attribute__((used)) struct state given, seen, left, got;
static const int vector_level;

#define FROM_5_TO_30 "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30"
#define TO_31	     "0, 1, 2, 3, 4, " FROM_5_TO_30 ", 31"
#define SAVED	     "1, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27"

/* By t6, which is free. */
__asm__(".text\n"
	".macro store_all state\n"
	"	lla	t6, \\state\n"
	"	.irp i, 1, 2, 3, 4, " FROM_5_TO_30 "\n	sd	x\\i, 8*\\i(t6)\n	.endr\n"
	"	.irp i, " TO_31 "\n	fsd	f\\i, 256+8*\\i(t6)\n	.endr\n"
	"	frcsr	t5\n"
	"	sd	t5, 512(t6)\n"
	".endm\n"
	".macro load_all state\n"
	"	lla	t6, \\state\n"
	"	ld	t5, 512(t6)\n"
	"	fscsr	t5\n"
	"	.irp i, " TO_31 "\n	fld	f\\i, 256+8*\\i(t6)\n	.endr\n"
	"	.irp i, " FROM_5_TO_30 "\n	ld	x\\i, 8*\\i(t6)\n	.endr\n"
	"	ld	t6, 8*31(t6)\n"
	".endm\n"
	".globl call_with_given\n"
	".type call_with_given, @function\n"
	"call_with_given:\n"
	"	addi	sp, sp, -528\n"
	"	.irp i, " SAVED "\n	sd	x\\i, 8*\\i(sp)\n	.endr\n"
	"	.irp i, " SAVED "\n	fsd	f\\i, 256+8*\\i(sp)\n	.endr\n"
	"	frcsr	t0\n"
	"	sd	t0, 512(sp)\n"
	"	load_all given\n"
	"	call	probed\n"
	"	store_all got\n"
	"	ld	t0, 512(sp)\n"
	"	fscsr	t0\n"
	"	.irp i, " SAVED "\n	ld	x\\i, 8*\\i(sp)\n	.endr\n"
	"	.irp i, " SAVED "\n	fld	f\\i, 256+8*\\i(sp)\n	.endr\n"
	"	addi	sp, sp, 528\n"
	"	ret\n"
	".size call_with_given, . - call_with_given\n"
	".globl look_and_leave\n"
	".type look_and_leave, @function\n"
	"look_and_leave:\n"
	"	store_all seen\n"
	"	load_all left\n"
	"	ret\n"
	".size look_and_leave, . - look_and_leave\n");

/* The compiler adds the site, and nothing else. */
__attribute__((naked, used)) TRACED void probed(void)
{
	__asm__("j look_and_leave");
}

UNTRACED static void state_learn(void)
{
}

/* Any flags, and one of the five ways to round. */
UNTRACED static void state_make_valid(struct state *state, uint64_t seed)
{
	state->fcsr = (seed >> 40 & 31) | (seed >> 48) % 5 << 5;
}

#endif
