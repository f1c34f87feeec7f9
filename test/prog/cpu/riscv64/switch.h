/* place_switch() of routine.h in assembly, for RISC-V 64: what a callee must keep lies on the stack that is left. */
#ifndef TEST_PROG_SWITCH_H
#define TEST_PROG_SWITCH_H

/* Words of a stack that is left; among them where it goes on, and the argument of routine_first. */
enum { SWITCH_WORDS = 26, SWITCH_GOES_ON = 0, SWITCH_ARGUMENT = 1 };

#define SWITCH_EACH(general, floating)                                                                                 \
	"	.set place, 0\n"                                                                                             \
	"	.irp register, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11\n"                                       \
	"	" general " \\register, place(sp)\n"                                                                   \
	"	.set place, place + 8\n"                                                                                     \
	"	.endr\n"                                                                                                     \
	"	.irp register, fs0, fs1, fs2, fs3, fs4, fs5, fs6, fs7, fs8, fs9, fs10, fs11\n"                               \
	"	" floating " \\register, place(sp)\n"                                                                  \
	"	.set place, place + 8\n"                                                                                     \
	"	.endr\n"

/* a0, a1: where the stack's pointer is kept, and the other's. */
__asm__(".text\n"
	".globl place_switch\n"
	".hidden place_switch\n"
	".type place_switch, @function\n"
	"place_switch:\n"
	"	addi sp, sp, -208\n" SWITCH_EACH(
		"sd", "fsd") "	sd sp, (a0)\n"
			     "	ld sp, (a1)\n" SWITCH_EACH("ld", "fld") "	addi sp, sp, 208\n"
									"	ret\n"
									".size place_switch, . - place_switch\n"
									/* The first switch to a routine returns to
									   here; it has put itself into s0. */
									".globl routine_first\n"
									".hidden routine_first\n"
									".type routine_first, @function\n"
									"routine_first:\n"
									"	mv a0, s0\n"
									"	call routine_body\n"
									"	unimp\n"
									".size routine_first, . - routine_first\n");

#endif
