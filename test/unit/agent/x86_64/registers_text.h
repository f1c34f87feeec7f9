/*
 * Assembly text of the unit tests that fill the general registers around calls
 * of traced functions, x86-64.
 *
 * `callee NAME`, after REGISTERS_MACROS, is a function with a site: it notes all
 * registers but rsp in seen_inside[] and gives them their number plus 2000.
 * REGISTERS_CALL is call_with_registers(): it gives them their number plus 1000,
 * calls its argument, and notes them in seen_after[].
 */
#ifndef TEST_AGENT_X86_64_REGISTERS_TEXT_H
#define TEST_AGENT_X86_64_REGISTERS_TEXT_H

#define REGISTERS_FREE_AT_EXIT 0
/* Unwinding from an entry recorder comes to its stub. */
#define RECORDERS_LEAD_TO_CALLERS 0
#define TRAPS_TO_FORK		  1 /* from one that a handler forks at to the next */

#define REGISTERS_MACROS                                                                                               \
	".text\n"                                                                                                      \
	".macro set_registers base\n"                                                                                  \
	"	i = 0\n"                                                                                                     \
	"	.irp reg, rax, rdx, rcx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15\n"                         \
	"	mov $(\\base + i), %\\reg\n"                                                                                 \
	"	i = i + 1\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	".endm\n"                                                                                                      \
	".macro note_registers where\n"                                                                                \
	"	i = 0\n"                                                                                                     \
	"	.irp reg, rax, rdx, rcx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15\n"                         \
	"	mov %\\reg, \\where + i(%rip)\n"                                                                             \
	"	i = i + 8\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	".endm\n"                                                                                                      \
	".macro callee name\n"                                                                                         \
	"	.globl \\name\n"                                                                                             \
	"	.type \\name, @function\n"                                                                                   \
	"\\name:\n"                                                                                                    \
	"	.fill 5, 1, 0x90\n"                                                                                          \
	"	note_registers seen_inside\n"                                                                                \
	"	set_registers 2000\n"                                                                                        \
	"	ret\n"                                                                                                       \
	".endm\n"

#define REGISTERS_CALL                                                                                                 \
	".globl call_with_registers\n"                                                                                 \
	"call_with_registers:\n"                                                                                       \
	"	.irp reg, %rbx, %rbp, %r12, %r13, %r14, %r15, %rdi\n"                                                        \
	"	push \\reg\n"                                                                                                \
	"	.endr\n"                                                                                                     \
	"	set_registers 1000\n"                                                                                        \
	"	call *(%rsp)\n"                                                                                              \
	"	note_registers seen_after\n"                                                                                 \
	"	pop %rdi\n"                                                                                                  \
	"	.irp reg, %r15, %r14, %r13, %r12, %rbp, %rbx\n"                                                              \
	"	pop \\reg\n"                                                                                                 \
	"	.endr\n"                                                                                                     \
	"	ret\n"

#endif
