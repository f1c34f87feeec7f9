/*
 * Saving and restoring the vector registers around handlers of the program's
 * own, AArch64: v0 to v31, FPSR, FPCR.  No more of SVE's: a function that
 * has arguments or results there is not traced (doc/design/aarch64.md).
 *
 * Called by the dispatcher with x0 = an area, a multiple of 64; x1 and x2 are
 * changed.  Context: probe.
 */
#define FPSR 512

	.text

.macro function name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	bti	c
.endm

.macro end_function name
	.cfi_endproc
	.size	\name, . - \name
.endm

.macro each_pair do
	\do	q0, q1, [x0]
	\do	q2, q3, [x0, #32]
	\do	q4, q5, [x0, #64]
	\do	q6, q7, [x0, #96]
	\do	q8, q9, [x0, #128]
	\do	q10, q11, [x0, #160]
	\do	q12, q13, [x0, #192]
	\do	q14, q15, [x0, #224]
	\do	q16, q17, [x0, #256]
	\do	q18, q19, [x0, #288]
	\do	q20, q21, [x0, #320]
	\do	q22, q23, [x0, #352]
	\do	q24, q25, [x0, #384]
	\do	q26, q27, [x0, #416]
	\do	q28, q29, [x0, #448]
	\do	q30, q31, [x0, #480]
.endm

	function agent_vectors_save
	each_pair stp
	mrs	x1, fpsr
	mrs	x2, fpcr
	str	w1, [x0, #FPSR]
	str	w2, [x0, #FPSR + 4]
	ret
	end_function agent_vectors_save

	function agent_vectors_restore
	each_pair ldp
	ldr	w1, [x0, #FPSR]
	ldr	w2, [x0, #FPSR + 4]
	msr	fpsr, x1
	msr	fpcr, x2
	ret
	end_function agent_vectors_restore

/*
 * uint64_t agent_vectors_low(uint64_t number): helper VECTOR (abi/program.h).  The dispatcher changes no vector register,
 * so they are as the call or the return has them; x1 is changed.
 */
	function agent_vectors_low
	mov	x1, x0
	.irp	number, 0, 1, 2, 3, 4, 5, 6, 7
	fmov	x0, d\number
	cbz	x1, 1f
	sub	x1, x1, #1
	.endr
	mov	x0, #0
1:	ret
	end_function agent_vectors_low

#include <landing_pads.inc>
	.section .note.GNU-stack, "", %progbits
