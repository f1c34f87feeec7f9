/*
 * Saving and restoring all vector and x87 registers around handlers of the
 * program's own, x86-64 (vectors.c says by which of these).
 *
 * Called by the dispatcher with rdi = an area, a multiple of 64; rax, rdx and
 * rdi are changed.  The area's header must hold nothing that is not written:
 * xrstor takes it for a fault.  Context: probe.
 */
#include <function.inc>

#define HEADER 512

	.text

.macro components
	mov	agent_vectors_mask(%rip), %eax
	mov	agent_vectors_mask + 4(%rip), %edx
.endm

.macro clear_header
	xor	%eax, %eax
	.irp	at, 0, 8, 16, 24, 32, 40, 48, 56
	mov	%rax, HEADER + \at(%rdi)
	.endr
.endm

	function agent_vectors_xsavec
	clear_header
	components
	xsavec64 (%rdi)
	ret
	function_end agent_vectors_xsavec

	function agent_vectors_xsave
	clear_header
	components
	xsave64	(%rdi)
	ret
	function_end agent_vectors_xsave

	function agent_vectors_xrstor
	components
	xrstor64 (%rdi)
	ret
	function_end agent_vectors_xrstor

	function agent_vectors_fxsave
	clear_header
	movq	$3, HEADER(%rdi)		/* x87 and SSE are there */
	fxsave64 (%rdi)
	ret
	function_end agent_vectors_fxsave

	function agent_vectors_fxrstor
	fxrstor64 (%rdi)
	ret
	function_end agent_vectors_fxrstor

/*
 * uint64_t agent_vectors_low(uint64_t number): helper VECTOR (abi/program.h).  The dispatcher changes no vector register,
 * so they are as the call or the return has them; rdi and rax are changed.
 */
	function agent_vectors_low
	endbr64
	.irp	number, 0, 1, 2, 3, 4, 5, 6, 7
	movq	%xmm\number, %rax
	sub	$1, %rdi
	jc	1f
	.endr
	xor	%eax, %eax
1:	ret
	function_end agent_vectors_low

/* Signal handlers return to this, and unwinders know them by it; so no unwind rule of the agent's may cover it. */
	nop
	.p2align 4
	nop
	.globl	agent_sigreturn
	.hidden	agent_sigreturn
	.type	agent_sigreturn, @function
agent_sigreturn:
	mov	$15, %rax
	syscall
	.size	agent_sigreturn, . - agent_sigreturn

	.section .note.GNU-stack, "", @progbits
