/*
 * mcount() and _mcount() in front of libc's, x86-64: what functions built with -pg call once their frame stands.
 *
 * libc's reads the caller's address from the frame, at 8(%rbp).  In a traced function that is a stub's, and libc would
 * drop the arc.  So where it is a stub's, libc's inner function gets both addresses of the arc from here; all other
 * calls go on in libc's as they came, and so do all where the inner function is not known (mcount.c).
 *
 * Called by the program's functions at their beginning: all general registers are kept, for arguments are in them, and
 * no vector register is touched; flags are free.  Nothing is waited for but what libc's own waits for.  After the
 * inner function's return only the stack is read, so the agent's memory may be let go of meanwhile.  Context: probe.
 */
#include <function.inc>

#define NEXT 0
#define BODY 8

	.text

.macro save_all
	.irp	reg, %rax, %rdx, %rcx, %rsi, %rdi, %r8, %r9, %r10, %r11
	push	\reg
	.cfi_adjust_cfa_offset 8
	.endr
.endm

.macro restore_all
	.irp	reg, %r11, %r10, %r9, %r8, %rdi, %rsi, %rcx, %rdx, %rax
	pop	\reg
	.cfi_adjust_cfa_offset -8
	.endr
.endm

/* words: libc's function of the name, and its inner one (struct agent_mcount). */
.macro front name, words
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	save_all
	cmpq	$0, BODY + \words(%rip)
	je	.Lpass_on\@
	lea	8(%rbp), %rdi
	call	frames_caller
	test	%rax, %rax
	jz	.Lpass_on\@
	mov	%rax, %rdi
	mov	72(%rsp), %rsi			/* where this was called from */
	call	*BODY + \words(%rip)
	.cfi_remember_state
	restore_all
	ret
.Lpass_on\@:
	.cfi_restore_state
	restore_all
	cmpq	$0, NEXT + \words(%rip)	/* before the agent's start: nothing is counted yet, either */
	je	.Lreturn\@
	jmp	*NEXT + \words(%rip)
.Lreturn\@:
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	front	mcount, agent_mcounts
	front	_mcount, agent_mcounts + 16

	.section .note.GNU-stack, "", @progbits
