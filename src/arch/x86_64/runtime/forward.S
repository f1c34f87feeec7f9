/*
 * makecontext() and swapcontext() in front of libc's, x86-64. makecontext() has last arguments of any number and type,
 * and swapcontext() saves the registers and the stack pointer of its caller: so both are passed on with all that
 * untouched.  Context: probe, on the program's thread.
 */
	.text
	.globl	makecontext
	.type	makecontext, @function
	.p2align 4
makecontext:
	.cfi_startproc
	endbr64
	.irp	reg, %rdi, %rsi, %rdx, %rcx, %r8, %r9, %rax
	push	\reg
	.cfi_adjust_cfa_offset 8
	.endr
	call	probe_context_made
	.irp	reg, %rax, %r9, %r8, %rcx, %rdx, %rsi, %rdi
	pop	\reg
	.cfi_adjust_cfa_offset -8
	.endr
	jmp	*arch_next_makecontext(%rip)
	.cfi_endproc
	.size	makecontext, . - makecontext

	.globl	swapcontext
	.type	swapcontext, @function
	.p2align 4
swapcontext:
	.cfi_startproc
	endbr64
	.irp	reg, %rdi, %rsi, %rax
	push	\reg
	.cfi_adjust_cfa_offset 8
	.endr
	lea	24(%rsp), %rdi			/* S */
	mov	(%rdi), %rsi
	call	probe_context_left
	mov	%rax, 24(%rsp)
	.irp	reg, %rax, %rsi, %rdi
	pop	\reg
	.cfi_adjust_cfa_offset -8
	.endr
	jmp	*arch_next_swapcontext(%rip)
	.cfi_endproc
	.size	swapcontext, . - swapcontext

	.section .note.GNU-stack, "", @progbits
