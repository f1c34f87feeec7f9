/*
 * Assembly text of the unit tests that fill the general registers around calls of traced functions, riscv64: t2, s0,
 * s1, a0 to a7 and s2 to s11.
 *
 * `callee NAME`, after REGISTERS_MACROS, is a function with a site: it notes the registers in seen_inside[] and gives
 * each its place in that list plus 2000. REGISTERS_CALL is call_with_registers(): it gives each its place plus 1000,
 * calls its argument, and notes them in seen_after[].
 */
#ifndef TEST_AGENT_RISCV64_REGISTERS_TEXT_H
#define TEST_AGENT_RISCV64_REGISTERS_TEXT_H

/* Of t0, t1 and t3 to t6 a call keeps nothing; t2, the first in the list, has no result, so at the exit it is nobody's
 * either. */
#define REGISTERS_FREE_AT_EXIT 1
/* Unwinding from a recorder leads to the caller and leaves the stub out. */
#define RECORDERS_LEAD_TO_CALLERS 1
#define TRAPS_TO_FORK		  3 /* from one that a handler forks at to the next: with breakpoints, each takes long */

#define REGISTERS_MACROS                                                                                               \
	".text\n"                                                                                                      \
	".option push\n"                                                                                               \
	".option norvc\n"                                                                                              \
	".macro set_registers base\n"                                                                                  \
	"	i = 0\n"                                                                                                     \
	"	.irp n, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"                   \
	"	li x\\n, \\base + i\n"                                                                                       \
	"	i = i + 1\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	".endm\n"                                                                                                      \
	".macro note_registers where\n"                                                                                \
	"	lla t6, \\where\n"                                                                                           \
	"	i = 0\n"                                                                                                     \
	"	.irp n, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"                   \
	"	sd x\\n, i(t6)\n"                                                                                            \
	"	i = i + 8\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	".endm\n"                                                                                                      \
	".macro callee name\n"                                                                                         \
	"	.globl \\name\n"                                                                                             \
	"	.type \\name, @function\n"                                                                                   \
	"	.p2align 3\n"                                                                                                \
	"\\name:\n"                                                                                                    \
	"	nop\n"                                                                                                       \
	"	nop\n"                                                                                                       \
	"	note_registers seen_inside\n"                                                                                \
	"	set_registers 2000\n"                                                                                        \
	"	ret\n"                                                                                                       \
	".endm\n"

#define REGISTERS_CALL                                                                                                 \
	".globl call_with_registers\n"                                                                                 \
	"call_with_registers:\n"                                                                                       \
	"	addi sp, sp, -112\n"                                                                                         \
	"	sd ra, 0(sp)\n"                                                                                              \
	"	i = 8\n"                                                                                                     \
	"	.irp n, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"                                                      \
	"	sd x\\n, i(sp)\n"                                                                                            \
	"	i = i + 8\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	"	mv t6, a0\n"                                                                                                 \
	"	set_registers 1000\n"                                                                                        \
	"	jalr t6\n"                                                                                                   \
	"	note_registers seen_after\n"                                                                                 \
	"	i = 8\n"                                                                                                     \
	"	.irp n, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"                                                      \
	"	ld x\\n, i(sp)\n"                                                                                            \
	"	i = i + 8\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	"	ld ra, 0(sp)\n"                                                                                              \
	"	addi sp, sp, 112\n"                                                                                          \
	"	ret\n"                                                                                                       \
	".option pop\n"

#endif
