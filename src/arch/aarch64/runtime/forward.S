/*
 * makecontext() and swapcontext() in front of libc's, AArch64.  The last
 * arguments of the one are of any number, and the other saves the registers and
 * the stack pointer of its caller: so both are passed on with all that
 * untouched.  Context: probe, on the program's thread.
 */
#include "offsets.h"

	.text
	.globl	makecontext
	.type	makecontext, %function
	.p2align 4
makecontext:
	.cfi_startproc
	bti	c
	stp	x0, x1, [sp, #-80]!
	.cfi_adjust_cfa_offset 80
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x30, [sp, #64]
	.cfi_offset x30, -8
	bl	probe_context_made
	ldp	x8, x30, [sp, #64]
	.cfi_restore x30
	ldp	x6, x7, [sp, #48]
	ldp	x4, x5, [sp, #32]
	ldp	x2, x3, [sp, #16]
	ldp	x0, x1, [sp], #80
	.cfi_adjust_cfa_offset -80
	adrp	x16, arch_next_makecontext
	ldr	x16, [x16, #:lo12:arch_next_makecontext]
	br	x16
	.cfi_endproc
	.size	makecontext, . - makecontext

	.globl	swapcontext
	.type	swapcontext, %function
	.p2align 4
swapcontext:
	.cfi_startproc
	bti	c
	stp	x0, x1, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	str	x30, [sp, #16]
	.cfi_offset x30, -16
	add	x0, sp, #32 - 8			/* S */
	mov	x1, x30
	bl	probe_context_left
	mov	x30, x0
	ldp	x0, x1, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x30
	adrp	x16, arch_next_swapcontext
	ldr	x16, [x16, #:lo12:arch_next_swapcontext]
	br	x16
	.cfi_endproc
	.size	swapcontext, . - swapcontext

#include "landing_pads.inc"
	.section .note.GNU-stack, "", %progbits
