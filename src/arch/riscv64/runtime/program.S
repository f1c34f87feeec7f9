/*
 * Calling a program's code (probe/program.h), which is bare (bpf/compile.h): the frame and the kept registers are made
 * here, so that the program's own code has one unwind rule: the return address is in s6, which helpers keep, and not in
 * ra, which each call of a helper changes.  Context: probe, on the program's thread.
 */
#include "recorder.inc"

#define SAVED 64

	.option norelax
	.text

.macro keep reg, at
	sd	\reg, \at(sp)
	.cfi_rel_offset \reg, \at
.endm

.macro give_back reg, at
	ld	\reg, \at(sp)
	.cfi_restore \reg
.endm

/* uint64_t arch_program_call(const struct calltap_program_context *context, uint64_t code, void *stack_end); */
	recorder arch_program_call
	landing_pad
	addi	sp, sp, -SAVED
	.cfi_def_cfa_offset SAVED
	keep	ra, 56
	keep	s1, 48
	keep	s2, 40
	keep	s3, 32
	keep	s4, 24
	keep	s5, 16
	keep	s6, 8
	mv	s1, a2				/* r10, the end of the program's stack */
	mv	t2, a1				/* a jump by t2 needs no landing pad */
	lla	s6, 1f
	jalr	t2
1:
	give_back s6, 8
	give_back s5, 16
	give_back s4, 24
	give_back s3, 32
	give_back s2, 40
	give_back s1, 48
	give_back ra, 56
	addi	sp, sp, SAVED
	.cfi_def_cfa_offset 0
	ret
	recorder_end arch_program_call

	.section .note.GNU-stack, "", @progbits
