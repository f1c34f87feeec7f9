/*
 * makecontext() and swapcontext() in front of libc's, riscv64.  The last
 * arguments of the one are of any number, and the other saves the registers and
 * the stack pointer of its caller: so both are passed on with all that
 * untouched.  Context: probe, on the program's thread.
 */
	.option norelax
	.text
	.globl	makecontext
	.type	makecontext, @function
	.p2align 4
makecontext:
	.cfi_startproc
	.4byte	0x00000017			/* lpad, see entry.S */
	addi	sp, sp, -80
	.cfi_def_cfa_offset 80
	sd	ra, 64(sp)
	.cfi_offset ra, -16
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	sd	a\n, \n * 8(sp)
	.endr
	call	probe_context_made
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	ld	a\n, \n * 8(sp)
	.endr
	ld	ra, 64(sp)
	.cfi_restore ra
	addi	sp, sp, 80
	.cfi_def_cfa_offset 0
	lla	t1, arch_next_makecontext
	ld	t1, 0(t1)
	jr	t1
	.cfi_endproc
	.size	makecontext, . - makecontext

	.globl	swapcontext
	.type	swapcontext, @function
	.p2align 4
swapcontext:
	.cfi_startproc
	.4byte	0x00000017
	addi	sp, sp, -32
	.cfi_def_cfa_offset 32
	sd	ra, 16(sp)
	.cfi_offset ra, -16
	sd	a0, 0(sp)
	sd	a1, 8(sp)
	addi	a0, sp, 32 - 8			# S
	mv	a1, ra
	call	probe_context_left
	mv	ra, a0
	.cfi_restore ra
	ld	a0, 0(sp)
	ld	a1, 8(sp)
	addi	sp, sp, 32
	.cfi_def_cfa_offset 0
	lla	t1, arch_next_swapcontext
	ld	t1, 0(t1)
	jr	t1
	.cfi_endproc
	.size	swapcontext, . - swapcontext

	.section .note.GNU-stack, "", @progbits
