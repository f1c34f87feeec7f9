/*
 * syscall() in front of libc's, x86-64.  The calls that agent_syscall() knows go there with the six arguments that are in
 * registers; all else goes on to libc's function.  The seventh argument lies on the stack, in a place that
 * is the caller's own where he passes fewer, and that a C function might write to: so the front is no C function.
 * Context: control, on the program's thread.
 */
#include <asm/unistd.h>

	.text
	.globl	syscall
	.type	syscall, @function
	.p2align 4
syscall:
	.cfi_startproc
	endbr64
	cmp	$__NR_prctl, %edi		/* an int, for the kernel */
	je	agent_syscall
	cmp	$__NR_seccomp, %edi
	je	agent_syscall
	cmp	$__NR_unshare, %edi
	je	agent_syscall
	cmp	$__NR_setns, %edi
	je	agent_syscall
	cmp	$__NR_mlockall, %edi
	je	agent_syscall
	jmp	*agent_next_syscall(%rip)
	.cfi_endproc
	.size	syscall, . - syscall

	.section .note.GNU-stack, "", @progbits
