/*
 * Saving and restoring the floating-point registers around handlers of the
 * program's own, riscv64: f0 to f31, fcsr.  No vector register: a function that
 * has arguments or results in one is not traced, and no call keeps one
 * (doc/design/riscv64.md).
 *
 * Called by the dispatcher with a0 = an area, a multiple of 64; a1 is changed.
 * Context: probe.
 */
#define FCSR 256

	.option norelax
	.text

.macro each do
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\do	f\n, 8 * \n(a0)
	.endr
.endm

.macro begin name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 2
\name:
	.cfi_startproc
	.4byte	0x00000017			/* lpad */
.endm

.macro finish name
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	begin	agent_vectors_save
	each	fsd
	frcsr	a1
	sw	a1, FCSR(a0)
	finish	agent_vectors_save

	begin	agent_vectors_restore
	each	fld
	lw	a1, FCSR(a0)
	fscsr	a1
	finish	agent_vectors_restore

/*
 * uint64_t agent_vectors_low(uint64_t number): helper VECTOR (abi/program.h).  The dispatcher changes no floating-point
 * register, so fa0 to fa7 are as the call or the return has them; a1 is changed.
 */
	begin	agent_vectors_low
	mv	a1, a0
	.irp	number, 0, 1, 2, 3, 4, 5, 6, 7
	fmv.x.d	a0, fa\number
	beqz	a1, 1f
	addi	a1, a1, -1
	.endr
	li	a0, 0
1:
	finish	agent_vectors_low

	.section .note.GNU-stack, "", @progbits
