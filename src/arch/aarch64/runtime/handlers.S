/*
 * The dispatcher: recorders of functions that handlers of the program's own, or
 * further instances, want the calls of, AArch64.  How stubs call them, and
 * what they may touch: entry.S.
 *
 * The frame is struct probe_handled, with all general registers for the
 * handlers to see and for faults; behind it lie the caller's address, the
 * stub's, and the stub's word (generic/runtime/link_handled.h).  x19 is its
 * address from then on, and the CFA is told by it, for the vector registers lie
 * below where a handler may touch them.  Registers that functions keep by
 * themselves are not read back, but where a handler has faulted
 * (agent/aarch64/context.c).
 *
 * C decides all (probe/handlers.c).  Any instruction may be where a signal's
 * handler comes in and an unwinder begins: the caller's address is in x17, then
 * in the frame; at an exit in the mirror until that is cleared, and then there.
 */
#include "recorder.inc"

#define HOW_ENTRY_BIT	0
#define HOW_VECTORS_BIT	2
#if HOW_ENTRY != 1 << HOW_ENTRY_BIT || HOW_VECTORS != 1 << HOW_VECTORS_BIT
#error "they are tested by their bits"
#endif

#define RET	H_END
#define WORD	(H_END + 16)
#define RET_AT	(H_CFA - RET)			/* below the CFA */

/* The registers that functions may change, but x16, x17 and x18, to or from the frame, whose address is sp. */
.macro lost_by_calls do
	\do	x0, x1, [sp, #H_KEPT]
	\do	x2, x3, [sp, #H_KEPT + 8 * 2]
	\do	x4, x5, [sp, #H_KEPT + 8 * 4]
	\do	x6, x7, [sp, #H_KEPT + 8 * 6]
	\do	x8, x9, [sp, #H_KEPT + 8 * 8]
	\do	x10, x11, [sp, #H_KEPT + 8 * 10]
	\do	x12, x13, [sp, #H_KEPT + 8 * 12]
	\do	x14, x15, [sp, #H_KEPT + 8 * 14]
.endm

.macro keep_registers
	bti	c
	sub	sp, sp, #H_CFA
	.cfi_adjust_cfa_offset H_CFA
	lost_by_calls stp
	stp	x16, x17, [sp, #H_KEPT + 8 * 16]
	stp	x18, x19, [sp, #H_KEPT + 8 * 18]
	.cfi_rel_offset x19, H_KEPT + 8 * 19
	stp	x20, x21, [sp, #H_KEPT + 8 * 20]
	stp	x22, x23, [sp, #H_KEPT + 8 * 22]
	stp	x24, x25, [sp, #H_KEPT + 8 * 24]
	stp	x26, x27, [sp, #H_KEPT + 8 * 26]
	stp	x28, x29, [sp, #H_KEPT + 8 * 28]
.endm

/* x19: the frame, for C and the unwinder. */
.macro base_frame
	mov	x19, sp
	.cfi_def_cfa_register x19
.endm

/* Back to sp as the frame's address; x16 and x17 are free. */
.macro give_back
	mov	sp, x19
	.cfi_def_cfa_register sp
	lost_by_calls ldp
	ldp	x18, x19, [sp, #H_KEPT + 8 * 18]
	.cfi_restore x19
.endm

/*
 * Save or restore the vector registers by the current table's function, to or from the frame's area, whose address is
 * in x0.
 */
.macro vectors by
	adrp	x16, probe_handled
	ldr	x16, [x16, #:lo12:probe_handled]
	ldr	x16, [x16, #\by]
	blr	x16
.endm

/*
 * w1: how.  In C, with the vector registers kept if a handler may touch them.
 * A thread whose handler has faulted goes on at `again`, with x19 and sp set.
 */
.macro in_c begin, again, end
	mov	x0, x19
	bl	\begin
	cbz	x0, \again
	mov	x1, sp
	sub	x0, x1, x0
	and	x0, x0, #-64
	mov	sp, x0
	str	x0, [x19, #H_AREA]
	vectors	HT_SAVE
	.globl	\again
	.hidden	\again
\again:
	mov	x0, x19
	bl	probe_handled_run
	ldr	w0, [x19, #H_HOW]
	tbz	w0, #HOW_VECTORS_BIT, 2f
	ldr	x0, [x19, #H_AREA]
	vectors	HT_RESTORE
2:	mov	x0, x19
	bl	\end
.endm

.macro recorder name
	function \name
	.cfi_personality 0x1b, probe_handled_unwound	/* relative to itself, 4 bytes */
.endm

/* An entry: x17 is the caller, x30 where the stub goes on; its word lies so far behind that. */
.macro keep_entry word
	.cfi_register x30, x17
	keep_registers
	stp	x17, x30, [sp, #RET]
	.cfi_rel_offset x30, RET
	ldr	w16, [x30, #\word]
	str	x16, [sp, #WORD]
	base_frame
.endm

.macro leave_entry
	give_back
	ldp	x17, x30, [sp, #RET]
	.cfi_register x30, x17
	add	sp, sp, #H_CFA
	.cfi_adjust_cfa_offset -H_CFA
.endm

	.text

/* Nobody waits for the exit.  x17: the caller; x30: the stub's `b body`. */
	recorder arch_call_handled
	keep_entry STUB_CALL_WORD
	mov	w1, #HOW_CALL
	b	.Lentry_in_c
	end_function arch_call_handled

/* x17: the caller; x30: the stub's `bl body`. */
	recorder arch_entry_handled
	keep_entry STUB_WORD
	mov	w1, #HOW_ENTRY
.Lentry_in_c:
	in_c	probe_handled_enter, arch_handled_again_entry, probe_handled_entered
	ldr	w16, [x19, #H_HOW]
	tbz	w16, #HOW_ENTRY_BIT, .Lcall_done
	cbnz	w0, .Lentry_untraced
	.cfi_remember_state
	leave_entry
	ret

	.cfi_restore_state
	.cfi_remember_state
.Lcall_done:
	leave_entry
	mov	x16, x30
	mov	x30, x17			/* here, not in the stub: there it must not be the stub's own */
	.cfi_restore x30
	ret	x16

	/* The body's return does not come by the dispatcher: go to the stub's direct jump, as entry.S does. */
	.cfi_restore_state
.Lentry_untraced:
	leave_entry
	mov	x16, #1
	CHKFEAT_X16
	cbnz	x16, 1f
	GCSPOPM
1:	add	x16, x30, #STUB_UNTRACED
	mov	x30, x17
	br	x16
	end_function arch_entry_handled

/* x17: word. */
	recorder arch_exit_handled
	CFI_RETURN_BY_MIRROR
	keep_registers
	str	x17, [sp, #WORD]
	base_frame
	CFI_RETURN_BY_MIRROR_OR_MEMORY(RET_AT)
	mov	w1, #HOW_EXIT
	in_c	probe_handled_leave, arch_handled_again_exit, probe_handled_left
	give_back
	ldr	x30, [sp, #RET]
	.cfi_restore x30
	add	sp, sp, #H_CFA
	.cfi_adjust_cfa_offset -H_CFA
	ret
	end_function arch_exit_handled

#include "landing_pads.inc"
	.section .note.GNU-stack, "", %progbits
