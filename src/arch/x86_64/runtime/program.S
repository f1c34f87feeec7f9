/*
 * Calling a program's code (probe/program.h), which is bare (bpf/compile.h): the frame and the kept registers are made
 * here, so that the program's own code has one unwind rule: the return address is at rsp.
 * Context: probe, on the program's thread.
 */
#include "function.inc"

.macro save_kept regs:vararg
	.irp	reg, \regs
	push	\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endr
.endm

.macro restore_kept regs:vararg
	.irp	reg, \regs
	pop	\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
.endm

	.text

/* uint64_t arch_program_call(const struct calltap_program_context *context, uint64_t code, void *stack_end); */
	function arch_program_call
	endbr64
	save_kept %rbp, %rbx, %r13, %r14, %r15
	mov	%rdx, %rbp			/* r10, the end of the program's stack */
	call	*%rsi
	restore_kept %r15, %r14, %r13, %rbx, %rbp
	ret
	function_end arch_program_call

	.section .note.GNU-stack, "", @progbits
