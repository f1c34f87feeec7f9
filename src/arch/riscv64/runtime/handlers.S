/*
 * The dispatcher: recorders of functions that handlers of the program's own, or
 * further instances, want the calls of, riscv64.  How stubs call them, and what
 * they may touch: entry.S.
 *
 * The frame is struct probe_handled with the general registers by number, then
 * the caller's address, the stub's, and the stub's word
 * (generic/runtime/link_handled.h).  s1 has its address while C is at work, and
 * the CFA is told by it: C may be given more stack, for the floating-point
 * registers.  The s registers are stored for handlers to see and for faults
 * (agent/riscv64/context.c), and not read back here.
 *
 * C decides all (probe/handlers.c).  At each instruction an unwinder finds the
 * caller: by t1 or ra at an entry, then in the frame; at an exit in the mirror
 * until C has cleared that, then in the frame.
 */
#include "recorder.inc"

#define KEPT(n)	(H_KEPT + 8 * (n))
#define RET	H_END
#define STUB	(H_END + 8)
#define WORD	(H_END + 16)

	.option norelax
	.text

/* The registers that C may change and a traced call may not: t0 with the body, t2, a0 to a7. */
.macro lost_in_c do
	.irp	n, 5, 7, 10, 11, 12, 13, 14, 15, 16, 17
	\do	x\n, KEPT(\n)(sp)
	.endr
.endm

.macro make_frame
	landing_pad
	addi	sp, sp, -H_CFA
	.cfi_def_cfa_offset H_CFA
	lost_in_c sd
	.irp	n, 3, 4, 6, 8, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	sd	x\n, KEPT(\n)(sp)
	.endr
	sd	zero, KEPT(0)(sp)
	sd	s1, KEPT(9)(sp)
	.cfi_rel_offset s1, KEPT(9)
.endm

/* The stub's word; from here on the frame is known by s1. */
.macro use_frame word
	lw	t3, \word
	sd	t3, WORD(sp)
	mv	s1, sp
	.cfi_def_cfa_register s1
	addi	t3, sp, H_CFA
	sd	t3, KEPT(2)(s1)
.endm

.macro leave_frame
	mv	sp, s1
	.cfi_def_cfa_register sp
	lost_in_c ld
	ld	s1, KEPT(9)(sp)
	.cfi_same_value s1
.endm

.macro drop_frame
	addi	sp, sp, H_CFA
	.cfi_def_cfa_offset 0
.endm

/* Save or restore the vector registers, by the present table's function.  a0: the frame's area. */
.macro vectors by
	lla	t1, probe_handled
	ld	t1, 0(t1)
	ld	t1, \by(t1)
	jalr	t1
.endm

/*
 * a1: how.  A thread whose handler has faulted goes on at `again`, with s1 and
 * sp set.
 */
.macro in_c begin, again, end
	mv	a0, s1
	call	\begin
	beqz	a0, \again
	sub	a0, sp, a0
	andi	a0, a0, -64
	mv	sp, a0
	sd	a0, H_AREA(s1)
	vectors	HT_SAVE
	.globl	\again
	.hidden	\again
\again:
	mv	a0, s1
	call	probe_handled_run
	lw	t1, H_HOW(s1)
	andi	t1, t1, HOW_VECTORS
	beqz	t1, 2f
	ld	a0, H_AREA(s1)
	vectors	HT_RESTORE
2:	mv	a0, s1
	call	\end
.endm

.macro dispatcher name
	recorder \name
	.cfi_personality 0x1b, probe_handled_unwound	/* relative to itself, 4 bytes */
.endm

/* Nobody waits for the exit.  In: t0 body, t3 the stub's word, ra the caller. */
	dispatcher arch_call_handled
	make_frame
	sd	ra, RET(sp)
	.cfi_rel_offset ra, RET
	use_frame STUB_CALL_WORD(t3)
	li	a1, HOW_CALL
	j	.Lentry_in_c
	recorder_end arch_call_handled

/* In: t0 body, t1 caller, ra the stub. */
	dispatcher arch_entry_handled
	CFI_CALLER_IN_T1
	make_frame
	sd	t1, RET(sp)
	.cfi_rel_offset ra, RET
	sd	ra, STUB(sp)
	use_frame STUB_ENTRY_WORD(ra)
	li	a1, HOW_ENTRY
.Lentry_in_c:
	in_c	probe_handled_enter, arch_handled_again_entry, probe_handled_entered
	lw	t1, H_HOW(s1)
	andi	t1, t1, HOW_ENTRY
	beqz	t1, .Lentry_untraced
	bnez	a0, .Lentry_untraced
	.cfi_remember_state
	leave_frame
	ld	t1, RET(sp)
	CFI_CALLER_IN_T1
	ld	ra, STUB(sp)
	drop_frame
	ret

	/* Nobody waits for its return, or it does not come by here: to the body, which returns to the caller. */
	.cfi_restore_state
.Lentry_untraced:
	leave_frame
	ld	ra, RET(sp)
	CFI_CALLER_IN_RA
	drop_frame
	jr	t0
	recorder_end arch_entry_handled

/* In: t3 the stub's words. */
	dispatcher arch_exit_handled
	CFI_CALLER_IN_MIRROR
	make_frame
	use_frame STUB_EXIT_WORD(t3)
	CFI_CALLER_IN_MIRROR_OR_FRAME(H_CFA - RET)
	li	a1, HOW_EXIT
	in_c	probe_handled_leave, arch_handled_again_exit, probe_handled_left
	leave_frame
	ld	ra, RET(sp)
	CFI_CALLER_IN_RA
	drop_frame
	ret
	recorder_end arch_exit_handled

	.section .note.GNU-stack, "", @progbits
