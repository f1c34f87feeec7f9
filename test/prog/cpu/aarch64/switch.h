/* place_switch() of routine.h in assembly, for AArch64: what a callee must keep lies on the stack that is left. */
#ifndef TEST_PROG_SWITCH_H
#define TEST_PROG_SWITCH_H

/* Words of a stack that is left; among them where it goes on, and the argument of routine_first. */
enum { SWITCH_WORDS = 20, SWITCH_GOES_ON = 11, SWITCH_ARGUMENT = 0 };

#define SWITCH_EACH(operation)                                                                                         \
	"	" operation " x19, x20, [sp]\n"                                                                        \
	"	" operation " x21, x22, [sp, 16]\n"                                                                    \
	"	" operation " x23, x24, [sp, 32]\n"                                                                    \
	"	" operation " x25, x26, [sp, 48]\n"                                                                    \
	"	" operation " x27, x28, [sp, 64]\n"                                                                    \
	"	" operation " x29, x30, [sp, 80]\n"                                                                    \
	"	" operation " d8, d9, [sp, 96]\n"                                                                      \
	"	" operation " d10, d11, [sp, 112]\n"                                                                   \
	"	" operation " d12, d13, [sp, 128]\n"                                                                   \
	"	" operation " d14, d15, [sp, 144]\n"

/* x0, x1: where the stack's pointer is kept, and the other's. */
__asm__(".text\n"
	".balign 4\n"
	".globl place_switch\n"
	".hidden place_switch\n"
	".type place_switch, %function\n"
	"place_switch:\n"
	"	sub sp, sp, 160\n" SWITCH_EACH(
		"stp") "	mov x2, sp\n"
		       "	str x2, [x0]\n"
		       "	ldr x2, [x1]\n"
		       "	mov sp, x2\n" SWITCH_EACH(
			       "ldp") "	add sp, sp, 160\n"
				      "	ret\n"
				      ".size place_switch, . - place_switch\n"
				      /* The first switch to a routine returns to here; it has put itself into x19. */
				      ".type routine_first, %function\n"
				      "routine_first:\n"
				      "	mov x0, x19\n"
				      "	bl routine_body\n"
				      "	udf 0\n"
				      ".size routine_first, . - routine_first\n");

#endif
