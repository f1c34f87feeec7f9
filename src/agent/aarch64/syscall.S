/*
 * syscall() in front of libc's, AArch64.  The calls that agent_syscall() knows go there with the six arguments that are in
 * registers; all else goes on to libc's function.
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
	cmp	w0, #__NR_seccomp
	b.eq	1f
	cmp	w0, #__NR_unshare
	b.eq	1f
	cmp	w0, #__NR_setns
	b.eq	1f
	cmp	w0, #__NR_mlockall
	b.eq	1f
	adrp	x16, agent_next_syscall
	ldr	x16, [x16, #:lo12:agent_next_syscall]
	br	x16
1:	b	agent_syscall
	.cfi_endproc
	.size	syscall, . - syscall

#include <landing_pads.inc>
	.section .note.GNU-stack, "", %progbits
