/*
 * Calling a program's code (probe/program.h), which is bare (bpf/compile.h): the frame and the kept registers are made
 * here, so that the program's own code has one unwind rule: the return address is in x23, which helpers keep, and not in
 * x30, which each call of a helper changes.  Context: probe, on the program's thread.
 */
#include "recorder.inc"

#define PROGRAM_STACK 512
#define SAVED	      64

	.text

/* uint64_t arch_program_call(const struct calltap_program_context *context, uint64_t code, void *stack_end); */
	function arch_program_call
	bti	c
	stp	x29, x30, [sp, #-SAVED]!
	.cfi_adjust_cfa_offset SAVED
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x19, x20, [sp, #16]
	.cfi_rel_offset x19, 16
	.cfi_rel_offset x20, 24
	stp	x21, x22, [sp, #32]
	.cfi_rel_offset x21, 32
	.cfi_rel_offset x22, 40
	stp	x23, x24, [sp, #48]
	.cfi_rel_offset x23, 48
	.cfi_rel_offset x24, 56
	mov	x29, x2				/* r10 */
	sub	x24, x2, #PROGRAM_STACK
	adr	x23, 1f
	blr	x1
1:	ldp	x19, x20, [sp, #16]
	.cfi_restore x19
	.cfi_restore x20
	ldp	x21, x22, [sp, #32]
	.cfi_restore x21
	.cfi_restore x22
	ldp	x23, x24, [sp, #48]
	.cfi_restore x23
	.cfi_restore x24
	ldp	x29, x30, [sp], #SAVED
	.cfi_adjust_cfa_offset -SAVED
	.cfi_restore x29
	.cfi_restore x30
	ret
	end_function arch_program_call

#include "landing_pads.inc"
	.section .note.GNU-stack, "", %progbits
