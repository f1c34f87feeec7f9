/*
 * The recorders that stubs call: entry and exit of a traced function, riscv64.
 *
 * Context: probe.  Preserved is what may hold an argument or a result, or
 * belongs to the caller: all but t1 and t3 to t6 at a function's entry (t0 is
 * the site's, t2 the static chain), all but the temporaries at its exit.  No
 * floating-point or vector register is touched, nor anything below sp.
 *
 *     site:    auipc t0; jalr t0             t0 = body
 *     stub_f:  [ sp below gate: jr t0 ]      only in gated stubs
 *              mv    t1, ra                  the caller
 *              ld    t3, ENTRY(region)
 *              jalr  ra, 0(t3)
 *              jalr  ra, 0(t0)               the body returns to B_f
 *     B_f:     ld    t1, EXIT(region)
 *              jalr  t3, 0(t1)               to the CPU no call: nothing is pushed to its return predictor
 *              .word exit word, entry word
 *
 * and for tracer "function", which needs no exit:
 *
 *     stub_f:  ld    t3, CALL(region)
 *              jalr  t3, 0(t3)
 *              .word word
 *
 * S is sp less 8; arch_mirror(S) has the caller's address, the word below it
 * where the entry recorder returns to, and arch_link(S) the S of the next outer
 * traced frame of the stack.  A mirror word that is not 0 marks a frame as live
 * or stale; see probe/graph.c.
 *
 * The fast recorders do the common case and leave everything else to C, which
 * starts anew: up to that jump nothing was changed but the ring's cursor,
 * which may run past the sub-buffer.
 *
 * Unwinding from a recorder leads to the caller and leaves the stub out.
 */
#include "recorder.inc"

	.option norelax
	.text

/* Argument registers to the frame's start, and back. */
.macro arguments do
	\do	a0, 0(sp)
	\do	a1, 8(sp)
	\do	a2, 16(sp)
	\do	a3, 24(sp)
	\do	a4, 32(sp)
	\do	a5, 40(sp)
	\do	a6, 48(sp)
	\do	a7, 56(sp)
.endm

/*
 * An entry.  In: t0 body, t1 caller, ra the stub.  timed: the time goes beside the frame, whose planes are those of
 * \granule.
 */
.macro record_entry granule, timed, not_below
	find_frame \granule, .Lentry_slow, \not_below
	sd	ra, -8(t4)
	sd	t1, 0(t4)
	ld	t3, PT_WRITER(t3)
	rdtime	t6
	CFI_CALLER_IN_MIRROR
	.if \timed
	li	t1, AT_MIRROR ^ AT_ENTERED
	xor	ra, t4, t1
	sd	t6, 0(ra)
	.endif
	lwu	t1, RW_TIME_HI(t3)
	slli	t1, t1, 32
	sub	t6, t6, t1
	srli	t1, t6, 32
	bnez	t1, .Lentry_undo
	.if \timed
	ld	ra, -8(t4)
	.endif
	lw	t1, STUB_ENTRY_WORD(ra)
	slli	t1, t1, 32
	or	t6, t6, t1			/* the record */
	li	t1, 8
	amoadd.d t1, t1, RW_CURSOR(t3)		/* take a slot */
	ld	ra, RW_BASE(t3)
	ld	t3, RW_SPAN(t3)
	sub	ra, t1, ra			/* one load decides: see ring/writer.h */
	bgeu	ra, t3, .Lentry_undo
	sd	t6, 0(t1)			/* visible from here on */
	ld	ra, -8(t4)
	join_stack
.endm

	recorder arch_entry_fast
	record_entry PT_GRANULE, 0, .Lentry_not_below

.Lentry_undo:
	ld	t1, 0(t4)
	CFI_CALLER_IN_T1
	ld	ra, -8(t4)
	sd	zero, 0(t4)
	j	.Lentry_slow

	/* The frame goes on under another name.  t1 and ra stay as they are. */
.Lentry_not_below:
	find_tail .Lentry_slow
	bltz	t6, .Lentry_slow		/* FRAME_EXACT: it is not this recorder's */
	ld	t3, PT_WRITER(t3)
	rdtime	t6
	lwu	t5, RW_TIME_HI(t3)
	slli	t5, t5, 32
	sub	t6, t6, t5
	srli	t5, t6, 32
	bnez	t5, .Lentry_slow
	lw	t5, STUB_ENTRY_WORD(ra)
	lui	t4, TO_TAIL >> 12
	or	t5, t5, t4
	slli	t5, t5, 32
	or	t6, t6, t5			/* the record */
	li	t5, 8
	amoadd.d t5, t5, RW_CURSOR(t3)		/* take a slot */
	ld	t4, RW_BASE(t3)
	ld	t3, RW_SPAN(t3)
	sub	t4, t5, t4			/* one load decides: see ring/writer.h */
	bgeu	t4, t3, .Lentry_slow
	rename_frame t4, t3
	sd	t6, 0(t5)			/* visible from here on */
	ret
.Lentry_slow:
	lla	t3, probe_graph_entry
.Lentry_c:
	.globl	arch_entry_to_c			/* for the other files: the function in t3 */
	.hidden	arch_entry_to_c
arch_entry_to_c:
	addi	sp, sp, -96
	.cfi_def_cfa_offset 96
	arguments sd
	sd	t0, 64(sp)
	sd	t2, 72(sp)
	sd	t1, 80(sp)			/* ret: the caller, */
	.cfi_offset ra, -16
	sd	ra, 88(sp)			/* and the stub */
	addi	a0, sp, 96 - 8			/* S */
	lw	a1, STUB_ENTRY_WORD(ra)
	addi	a2, sp, 80
	jalr	t3
	mv	t3, a0
	ld	t0, 64(sp)
	ld	t2, 72(sp)
	ld	t1, 80(sp)
	CFI_CALLER_IN_T1
	ld	ra, 88(sp)
	arguments ld
	addi	sp, sp, 96
	.cfi_def_cfa_offset 0
	bnez	t3, 1f
	ret
1:	mv	ra, t1				/* not traced */
	jr	t0
	recorder_end arch_entry_fast

/* An entry that goes to C at once. */
.macro entry_in_c name, function
	recorder \name
	CFI_CALLER_IN_T1
	landing_pad
	lla	t3, \function
	j	.Lentry_c
	recorder_end \name
.endm

	entry_in_c arch_entry_full, probe_graph_entry_full
	entry_in_c arch_entry_root, probe_graph_entry_root
	entry_in_c arch_entry_notree, probe_graph_entry_notree

	recorder arch_entry_timed
	record_entry PT_TIMED, 1, .Lentry_slow
	recorder_end arch_entry_timed

/* In: t3 the stub's words. */
	recorder arch_exit_fast
	CFI_CALLER_IN_MIRROR
	landing_pad
	rdtime	t6
	load_thread t4
	addi	t1, sp, -8			/* S */
	ld	t5, PT_STACK(t4)
	ld	t0, PS_TOP(t5)
	bne	t0, t1, .Lexit_slow		/* inner frames are gone, or another stack */
	ld	t4, PT_WRITER(t4)
	lwu	t0, RW_TIME_HI(t4)
	srli	t2, t6, 32
	bne	t2, t0, .Lexit_slow
	lw	t2, STUB_EXIT_WORD(t3)
	sub	t2, t2, t0
	slli	t2, t2, 32
	add	t6, t6, t2			/* the clock's low half, and the word for its high half */
	li	t0, 8
	amoadd.d t0, t0, RW_CURSOR(t4)
	ld	t2, RW_BASE(t4)
	ld	t4, RW_SPAN(t4)
	sub	t2, t0, t2
	bgeu	t2, t4, .Lexit_slow
	sd	t6, 0(t0)
	unlink_frame t1, t0
	sd	t0, PS_TOP(t5)
	ret

.Lexit_slow:
	CFI_CALLER_IN_MIRROR
	lla	t4, probe_graph_exit
.Lexit_c:
	.globl	arch_exit_to_c			/* for the other files: the function in t4 */
	.hidden	arch_exit_to_c
arch_exit_to_c:
	addi	sp, sp, -80
	.cfi_def_cfa_offset 80
	CFI_CALLER_IN_MIRROR_OR_FRAME(16)
	arguments sd
	addi	a0, sp, 80 - 8			/* S */
	lw	a1, STUB_EXIT_WORD(t3)
	addi	a2, sp, 64			/* ret */
	jalr	t4
	ld	ra, 64(sp)
	CFI_CALLER_IN_RA
	arguments ld
	addi	sp, sp, 80
	.cfi_def_cfa_offset 0
	ret
	recorder_end arch_exit_fast

.macro exit_in_c name, function
	recorder \name
	CFI_CALLER_IN_MIRROR
	landing_pad
	lla	t4, \function
	j	.Lexit_c
	recorder_end \name
.endm

	exit_in_c arch_exit_full, probe_graph_exit_full
	exit_in_c arch_exit_notree, probe_graph_exit_notree
	exit_in_c arch_exit_trigger, probe_trigger_exit
	exit_in_c arch_exit_trigger_full, probe_trigger_exit_full

/* Tracer "function": a record of two words and on to the body.  In: t0 body, t3 the stub's word, ra the caller. */
	recorder arch_call
	landing_pad
	load_thread t4
	ld	t4, PT_WRITER(t4)
	rdtime	t6
	lwu	t1, RW_TIME_HI(t4)
	srli	t5, t6, 32
	bne	t5, t1, .Lcall_slow
	lw	t5, STUB_CALL_WORD(t3)
	sub	t5, t5, t1
	slli	t5, t5, 32
	add	t6, t6, t5
	li	t1, 16
	amoadd.d t1, t1, RW_CURSOR(t4)
	ld	t5, RW_BASE(t4)
	ld	t4, RW_SPAN2(t4)
	sub	t5, t1, t5
	bgeu	t5, t4, .Lcall_slow
	sd	ra, 8(t1)			/* the caller */
	fence	w, w				/* the head makes both visible */
	sd	t6, 0(t1)
	jr	t0

.Lcall_slow:
	addi	sp, sp, -96
	.cfi_def_cfa_offset 96
	arguments sd
	sd	t0, 64(sp)
	sd	t2, 72(sp)
	sd	ra, 80(sp)
	.cfi_offset ra, -16
	mv	a0, ra
	lw	a1, STUB_CALL_WORD(t3)
	call	probe_call
	ld	t0, 64(sp)
	ld	t2, 72(sp)
	ld	ra, 80(sp)
	CFI_CALLER_IN_RA
	arguments ld
	addi	sp, sp, 96
	.cfi_def_cfa_offset 0
	jr	t0
	recorder_end arch_call

/* long arch_thread_start(flags, stack_top, fn, arg, child_tid) */
	.globl	arch_thread_start
	.hidden	arch_thread_start
	.type	arch_thread_start, @function
	.p2align 4
arch_thread_start:
	.cfi_startproc
	addi	a1, a1, -16
	sd	a2, 0(a1)
	sd	a3, 8(a1)
	li	a2, 0				/* no parent_tid, no thread pointer of its own; a4 is child_tid */
	li	a3, 0
	li	a7, 220				/* clone */
	ecall
	beqz	a0, 1f
	ret
	.cfi_undefined ra
1:	ld	t1, 0(sp)
	ld	a0, 8(sp)
	addi	sp, sp, 16
	jalr	t1
	li	a7, 93				/* exit: this thread alone */
	ecall
	ebreak
	.cfi_endproc
	.size	arch_thread_start, . - arch_thread_start

/* A page of text that is the program's to run nowhere: ways to change text are tried out on it (patch/poke.c). */
	.section .text.scratch, "ax", @progbits
	.globl	arch_scratch_page
	.hidden	arch_scratch_page
	.type	arch_scratch_page, @object
	.p2align 12
arch_scratch_page:
	.option push
	.option norvc
	li	a0, 0
	ret
	.option pop
	.fill	arch_scratch_page + 4096 - ., 1, 0
	.size	arch_scratch_page, . - arch_scratch_page

	.section .note.GNU-stack, "", @progbits
