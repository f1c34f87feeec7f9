/*
 * Calling a program's code (probe/program.h), which is bare (bpf/compile.h): the frame, the kept registers and the stack
 * of the program are made here, so that the program's own code has one unwind rule: the return address is at rsp.
 * Context: probe, on the program's thread.
 */
#include "function.inc"

#define PROGRAM_STACK 512

	.text

/* uint64_t arch_program_call(const struct calltap_program_context *context, uint64_t code); */
	function arch_program_call
	endbr64
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	push	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	push	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	push	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	mov	%rsp, %rbp			/* r10, the end of the program's stack */
	.cfi_def_cfa_register %rbp
	sub	$PROGRAM_STACK, %rsp
	call	*%rsi
	mov	%rbp, %rsp
	.cfi_def_cfa_register %rsp
	pop	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	pop	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	pop	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	function_end arch_program_call

	.section .note.GNU-stack, "", @progbits
