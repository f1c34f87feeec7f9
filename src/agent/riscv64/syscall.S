/*
 * syscall() in front of libc's, riscv64.  The calls that agent_syscall() knows go there with the six arguments that are in
 * registers; all else goes on to libc's function.
 * Context: control, on the program's thread.
 */
#include <asm/unistd.h>

	.option norelax
	.text
	.globl	syscall
	.type	syscall, @function
	.p2align 4
syscall:
	.cfi_startproc
	.4byte	0x00000017			/* lpad, see entry.S */
	sext.w	t0, a0				# an int, for the kernel
	li	t1, __NR_prctl
	beq	t0, t1, 1f
	li	t1, __NR_seccomp
	beq	t0, t1, 1f
	li	t1, __NR_unshare
	beq	t0, t1, 1f
	li	t1, __NR_setns
	beq	t0, t1, 1f
	li	t1, __NR_mlockall
	beq	t0, t1, 1f
	lla	t1, agent_next_syscall
	ld	t1, 0(t1)
	jr	t1
1:	tail	agent_syscall
	.cfi_endproc
	.size	syscall, . - syscall

	.section .note.GNU-stack, "", @progbits
