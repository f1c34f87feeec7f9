/*
 * The code by which a program's first thread calls the agent and goes on where it was (launch.c).
 *
 * The tool copies this into the target beside the agent, fills in the words (struct launch_words in launch.c), and sets
 * the thread's pc to launch_code and its stack pointer below what the program has in use.  The agent changes no vector
 * registers.  Position independent; runs in the target only.
 */
	.section .rodata
	.balign	16
	.globl	launch_begin
	.hidden	launch_begin
launch_begin:
argument:	.quad	0
entry:		.quad	0
pc:		.quad	0
flags:		.quad	0
rsp:		.quad	0
rax:		.quad	0
rbx:		.quad	0
rcx:		.quad	0
rdx:		.quad	0
rsi:		.quad	0
rdi:		.quad	0
rbp:		.quad	0
r8:		.quad	0
r9:		.quad	0
r10:		.quad	0
r11:		.quad	0
r12:		.quad	0
r13:		.quad	0
r14:		.quad	0
r15:		.quad	0
	.globl	launch_code
	.hidden	launch_code
launch_code:
	cld
	movq	argument(%rip), %rdi
	call	*entry(%rip)
	pushq	flags(%rip)
	popfq
	/* From here on only instructions that leave the flags alone. */
	movq	rax(%rip), %rax
	movq	rbx(%rip), %rbx
	movq	rcx(%rip), %rcx
	movq	rdx(%rip), %rdx
	movq	rsi(%rip), %rsi
	movq	rdi(%rip), %rdi
	movq	rbp(%rip), %rbp
	movq	r8(%rip), %r8
	movq	r9(%rip), %r9
	movq	r10(%rip), %r10
	movq	r11(%rip), %r11
	movq	r12(%rip), %r12
	movq	r13(%rip), %r13
	movq	r14(%rip), %r14
	movq	r15(%rip), %r15
	movq	rsp(%rip), %rsp
	jmp	*pc(%rip)
	.globl	launch_end
	.hidden	launch_end
launch_end:
	.section .note.GNU-stack, "", @progbits
