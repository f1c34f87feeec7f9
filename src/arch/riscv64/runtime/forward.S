/*
 * makecontext() in front of libc's, riscv64.  Its last arguments are of any
 * number, so it is passed on with registers and stack untouched.
 * Context: probe, on the program's thread.
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

	.section .note.GNU-stack, "", @progbits
