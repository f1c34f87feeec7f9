/*
 * Assembly text of the unit tests that fill the general registers around calls of traced functions, AArch64: x0 to x15
 * and x18 to x29.
 *
 * `callee NAME`, after REGISTERS_MACROS, is a function with a site: it notes the registers in seen_inside[] and gives
 * each its place in that list plus 2000. REGISTERS_CALL is call_with_registers(): it gives each its place plus 1000,
 * calls its argument, and notes them in seen_after[].
 */
#ifndef TEST_AGENT_AARCH64_REGISTERS_TEXT_H
#define TEST_AGENT_AARCH64_REGISTERS_TEXT_H

#define REGISTERS_FREE_AT_EXIT 0 /* so many in front of the list; x16 and x17 are nobody's around a call */
/* Unwinding from a recorder leads to the caller and leaves the stub out. */
#define RECORDERS_LEAD_TO_CALLERS 1
#define TRAPS_TO_FORK		  3 /* from one that a handler forks at to the next: with breakpoints, each takes long */

#define REGISTERS_MACROS                                                                                               \
	".text\n"                                                                                                      \
	".macro set_registers base\n"                                                                                  \
	"	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"                                              \
	"	mov x\\n, #(\\base + \\n)\n"                                                                                 \
	"	.endr\n"                                                                                                     \
	"	.irp n, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29\n"                                                    \
	"	mov x\\n, #(\\base + \\n - 2)\n"                                                                             \
	"	.endr\n"                                                                                                     \
	".endm\n"                                                                                                      \
	".macro note_registers where\n"                                                                                \
	"	adrp x16, \\where\n"                                                                                         \
	"	add x16, x16, :lo12:\\where\n"                                                                               \
	"	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"                                              \
	"	str x\\n, [x16, #8 * \\n]\n"                                                                                 \
	"	.endr\n"                                                                                                     \
	"	.irp n, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29\n"                                                    \
	"	str x\\n, [x16, #8 * (\\n - 2)]\n"                                                                           \
	"	.endr\n"                                                                                                     \
	".endm\n"                                                                                                      \
	".macro callee name\n"                                                                                         \
	"	.globl \\name\n"                                                                                             \
	"	.type \\name, %function\n"                                                                                   \
	"	.p2align 3\n"                                                                                                \
	"\\name:\n"                                                                                                    \
	"	nop\n"                                                                                                       \
	"	note_registers seen_inside\n"                                                                                \
	"	set_registers 2000\n"                                                                                        \
	"	ret\n"                                                                                                       \
	".endm\n"

#define REGISTERS_CALL                                                                                                 \
	".globl call_with_registers\n"                                                                                 \
	"call_with_registers:\n"                                                                                       \
	"	stp x29, x30, [sp, #-112]!\n"                                                                                \
	"	stp x19, x20, [sp, #16]\n"                                                                                   \
	"	stp x21, x22, [sp, #32]\n"                                                                                   \
	"	stp x23, x24, [sp, #48]\n"                                                                                   \
	"	stp x25, x26, [sp, #64]\n"                                                                                   \
	"	stp x27, x28, [sp, #80]\n"                                                                                   \
	"	str x18, [sp, #96]\n"                                                                                        \
	"	mov x17, x0\n"                                                                                               \
	"	set_registers 1000\n"                                                                                        \
	"	blr x17\n"                                                                                                   \
	"	note_registers seen_after\n"                                                                                 \
	"	ldr x18, [sp, #96]\n"                                                                                        \
	"	ldp x27, x28, [sp, #80]\n"                                                                                   \
	"	ldp x25, x26, [sp, #64]\n"                                                                                   \
	"	ldp x23, x24, [sp, #48]\n"                                                                                   \
	"	ldp x21, x22, [sp, #32]\n"                                                                                   \
	"	ldp x19, x20, [sp, #16]\n"                                                                                   \
	"	ldp x29, x30, [sp], #112\n"                                                                                  \
	"	ret\n"

#endif
