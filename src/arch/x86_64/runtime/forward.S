/*
 * makecontext() in front of libc's, x86-64.  Its last arguments are of any
 * number and type, so it is passed on with registers and stack untouched.
 * Context: probe, on the program's thread.
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

	.section .note.GNU-stack, "", @progbits
