/*
 * syscall() in front of libc's, AArch64.  prctl and seccomp, by which a program takes calls or the clock from itself, go to
 * agent_syscall() with the six arguments that are in registers; all else goes on to libc's function.
 * Context: control, on the program's thread.
 */
#include <asm/unistd.h>

	.text
	.globl	syscall
	.type	syscall, %function
	.p2align 4
syscall:
	.cfi_startproc
	bti	c
	cmp	w0, #__NR_prctl			/* an int, for the kernel */
	b.eq	1f
	mov	w16, #__NR_seccomp
	cmp	w0, w16
	b.eq	1f
	adrp	x16, agent_next_syscall
	ldr	x16, [x16, #:lo12:agent_next_syscall]
	br	x16
1:	b	agent_syscall
	.cfi_endproc
	.size	syscall, . - syscall

#include <landing_pads.inc>
	.section .note.GNU-stack, "", %progbits
