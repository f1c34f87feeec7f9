/*
 * The recorders that stubs call: entry and exit of a traced function, AArch64.
 *
 * Context: probe.  Free are x16, x17 and the flags, as at any call; all other general registers are preserved, and no
 * vector register is touched.
 *
 *     stub_f:  [ is sp below the thread's gate?  then to 1 ]   only in gated stubs
 *              mov  x17, x30
 *              adrp x16, ENTRY; ldr x16, [x16, ENTRY]; blr x16
 *              bl   body              x30 = B_f
 *     B_f:     adrp x16, EXIT; ldr x16, [x16, EXIT]; ldr w17, exit_word; br x16
 *     1:       b    body
 *              .word entry_word, exit_word
 *
 * S = sp - 8.  The caller's address lies at arch_mirror(S), the address of the stub's `bl body` below it, and the S of
 * the next outer traced frame of the stack at arch_link(S).  A mirror word that is not 0 marks a frame as open or
 * stale; see probe/graph.c.  A stub does not move sp, so an unwinder finds the caller from sp and x30
 * (generic/runtime/link_unwind.c).
 *
 * The fast recorders do the common case and leave everything else to C, which starts anew.  Up to that jump they have
 * changed only the ring's cursor, which may run past the sub-buffer, and at an entry the words of S in the planes: S is
 * in no chain yet, so they are as good as stale.
 */
#include "recorder.inc"

#if PT_WRITER != 0 || RW_CURSOR != 0 || PS_TOP != 0
#error "members that the code uses without an offset"
#endif

	.text

/*
 * Each recorder saves x0 to x3 in 32 bytes.  C may change more registers: they are saved in 128 bytes below, of which
 * 16 are for words that the recorder and C pass to each other.
 */
#define C_BYTES (32 + 128)

.macro save_for_c
	stp	x4, x5, [sp, #16]
	stp	x6, x7, [sp, #32]
	stp	x8, x9, [sp, #48]
	stp	x10, x11, [sp, #64]
	stp	x12, x13, [sp, #80]
	stp	x14, x15, [sp, #96]
	str	x18, [sp, #112]
.endm

.macro restore_from_c
	ldr	x18, [sp, #112]
	ldp	x14, x15, [sp, #96]
	ldp	x12, x13, [sp, #80]
	ldp	x10, x11, [sp, #64]
	ldp	x8, x9, [sp, #48]
	ldp	x6, x7, [sp, #32]
	ldp	x4, x5, [sp, #16]
.endm

/*
 * Record an entry; x17: the caller; x30: the stub's `bl body`.  timed: the time goes into the frame's planes, which are
 * those of \granule.
 */
.macro record_entry granule, timed, other
	open_frame \granule, \timed, .Lentry_slow, \other
	ldr	x16, [x16]			/* the writer */
	ldr	w1, [x16, #RW_TIME_HI]
	mrs	x0, cntvct_el0
	cmp	x1, x0, lsr #32
	b.ne	.Lentry_again
	.if \timed
	add	x1, sp, #24
	find_timed x3, x1, ENTERED_BITS, ENTERED_SKEW
	str	x0, [x3]
	.endif
	take_slot x1, x16, 8, x3, w17
	ldp	x3, x17, [x16, #RW_BASE]	/* and the span */
	sub	x3, x1, x3
	cmp	x3, x17				/* one load decides: see ring/writer.h */
	b.hs	.Lentry_again
	ldr	w3, [x30, #STUB_WORD]
	bfi	x0, x3, #32, #32
	str	x0, [x1]			/* the record: visible from here on */
	add	x0, sp, #24
	str	x0, [x2]
.endm

function arch_entry_fast
	record_entry PT_GRANULE, 0, .Lentry_other
.Lentry_done:
	restore_four
	ret

	.cfi_adjust_cfa_offset 32
.Lentry_again:
	add	x0, sp, #24
	eor	x0, x0, #MIRROR_MASK
	ldr	x17, [x0]
	.cfi_restore_state
	b	.Lentry_slow
	/* The frame goes on under another name. */
.Lentry_other:
	find_tail .Lentry_slow
	tbnz	x3, #EXACT_BIT, .Lentry_slow	/* it is not this recorder's */
	ldr	x16, [x16]			/* the writer */
	ldr	w1, [x16, #RW_TIME_HI]
	mrs	x0, cntvct_el0
	cmp	x1, x0, lsr #32
	b.ne	.Lentry_slow
	take_slot x1, x16, 8, x3, w2
	ldp	x3, x16, [x16, #RW_BASE]
	sub	x3, x1, x3
	cmp	x3, x16
	b.hs	.Lentry_slow
	ldr	w3, [x30, #STUB_WORD]
	orr	w3, w3, #TO_TAIL
	bfi	x0, x3, #32, #32
	mov	x2, x0
	add	x0, sp, #24			/* S */
	rename_frame x3
	str	x2, [x1]			/* the record: visible from here on */
	.cfi_remember_state
	restore_four
	ret
	.cfi_restore_state
.Lentry_slow:
	adrp	x16, probe_graph_entry
	add	x16, x16, :lo12:probe_graph_entry
.Lentry_c:
	.globl	arch_entry_to_c			/* for the other files: four registers saved, the function in x16 */
	.hidden	arch_entry_to_c
arch_entry_to_c:
	stp	x17, x30, [sp, #-128]!
	.cfi_adjust_cfa_offset 128
	.cfi_offset x30, -C_BYTES
	save_for_c
	add	x0, sp, #C_BYTES - 8		/* S */
	ldr	w1, [x30, #STUB_WORD]
	mov	x2, sp				/* the caller's address, and ours */
	blr	x16
	cmp	w0, #0
	restore_from_c
	ldp	x17, x30, [sp], #128
	.cfi_adjust_cfa_offset -128
	.cfi_register x30, x17
	b.eq	.Lentry_done
	/* Not traced: to the stub's direct jump, for the body has no landing pad, with the caller's address in x30. */
	mov	x16, #1
	CHKFEAT_X16
	cbnz	x16, 1f				/* no guarded control stack */
	GCSPOPM					/* the call from the stub is not returned to */
1:	add	x16, x30, #STUB_UNTRACED
	mov	x30, x17
	restore_four
	br	x16
end_function arch_entry_fast

/* An entry that goes to C at once; C gets (S, word, where the return addresses are). */
.macro entry_in_c name, routine
function \name
	.cfi_register x30, x17
	bti	c
	save_four
	adrp	x16, \routine
	add	x16, x16, :lo12:\routine
	b	.Lentry_c
end_function \name
.endm

	entry_in_c arch_entry_full, probe_graph_entry_full
	entry_in_c arch_entry_root, probe_graph_entry_root
	entry_in_c arch_entry_notree, probe_graph_entry_notree

function arch_entry_timed
	record_entry PT_TIMED, 1, .Lentry_slow
	restore_four
	ret
end_function arch_entry_timed

/* The exit; x17: the exit's word. */
function arch_exit_fast
	CFI_RETURN_BY_MIRROR
	bti	c
	find_exit .Lexit_slow
	ldr	x16, [x16]			/* the writer */
	ldr	w3, [x16, #RW_TIME_HI]
	mrs	x1, cntvct_el0
	cmp	x3, x1, lsr #32
	b.ne	.Lexit_slow
	bfi	x1, x17, #32, #32
	take_slot x3, x16, 8, x30, w17
	ldp	x30, x17, [x16, #RW_BASE]
	sub	x30, x3, x30
	cmp	x30, x17
	b.hs	.Lexit_slow_word
	str	x1, [x3]
	eor	x0, x0, #MIRROR_MASK
	close_frame

.Lexit_slow_word:
	lsr	x17, x1, #32
.Lexit_slow:
	adrp	x16, probe_graph_exit
	add	x16, x16, :lo12:probe_graph_exit
.Lexit_c:
	.globl	arch_exit_to_c			/* for the other files, as arch_entry_to_c */
	.hidden	arch_exit_to_c
arch_exit_to_c:
	sub	sp, sp, #128
	.cfi_adjust_cfa_offset 128
	CFI_RETURN_BY_MIRROR_OR_MEMORY(C_BYTES)
	save_for_c
	add	x0, sp, #C_BYTES - 8		/* S */
	mov	w1, w17
	mov	x2, sp				/* where C puts the caller's address */
	blr	x16
	restore_from_c
	ldr	x30, [sp], #128
	.cfi_adjust_cfa_offset -128
	.cfi_restore x30
	restore_four
	ret
end_function arch_exit_fast

.macro exit_in_c name, routine
function \name
	CFI_RETURN_BY_MIRROR
	bti	c
	save_four
	adrp	x16, \routine
	add	x16, x16, :lo12:\routine
	b	.Lexit_c
end_function \name
.endm

	exit_in_c arch_exit_full, probe_graph_exit_full
	exit_in_c arch_exit_notree, probe_graph_exit_notree
	exit_in_c arch_exit_trigger, probe_trigger_exit
	exit_in_c arch_exit_trigger_full, probe_trigger_exit_full

/*
 * Tracer "function": a record of two words and on to the body.
 * x17: the caller; x30: the stub's `b body`.
 */
function arch_call
	.cfi_register x30, x17
	bti	c
	save_four
	adrp	x1, :gottprel:probe_thread
	mrs	x16, tpidr_el0
	ldr	x1, [x1, #:gottprel_lo12:probe_thread]
	ldr	x16, [x16, x1]			/* the writer */
	ldr	w1, [x16, #RW_TIME_HI]
	mrs	x0, cntvct_el0
	cmp	x1, x0, lsr #32
	b.ne	.Lcall_slow
	ldr	w1, [x30, #STUB_CALL_WORD]
	bfi	x0, x1, #32, #32
	take_slot x2, x16, 16, x3, w1
	ldr	x1, [x16, #RW_BASE]
	ldr	x3, [x16, #RW_SPAN2]
	sub	x1, x2, x1
	cmp	x1, x3
	b.hs	.Lcall_slow
	str	x17, [x2, #8]
	stlr	x0, [x2]			/* a reader that sees the head sees the second word, too */
.Lcall_done:
	restore_four
	mov	x16, x30
	mov	x30, x17			/* here, not in the stub: there it must not be the stub's own */
	.cfi_restore x30
	ret	x16

	.cfi_adjust_cfa_offset 32
	.cfi_register x30, x17
.Lcall_slow:
	stp	x17, x30, [sp, #-128]!
	.cfi_adjust_cfa_offset 128
	.cfi_offset x30, -C_BYTES
	save_for_c
	mov	x0, x17
	ldr	w1, [x30, #STUB_CALL_WORD]
	bl	probe_call
	restore_from_c
	ldp	x17, x30, [sp], #128
	.cfi_adjust_cfa_offset -128
	.cfi_register x30, x17
	b	.Lcall_done
end_function arch_call

/* long arch_thread_start(flags, stack_top, fn, arg, child_tid) */
function arch_thread_start
	bti	c
	stp	x2, x3, [x1, #-16]!
	mov	x2, #0
	mov	x3, #0
	mov	x8, #220			/* clone(flags, stack, parent_tid, tls, child_tid) */
	svc	#0
	cbz	x0, 1f
	ret
	.cfi_undefined x30
1:	mov	x29, #0
	mov	x30, #0
	ldp	x1, x0, [sp], #16
	blr	x1
	mov	x8, #93				/* exit: this thread alone */
	svc	#0
	brk	#0
end_function arch_thread_start

/* A page of text that the program never runs: ways to change text are tried out on it (patch/poke.c). */
	.section .text.scratch, "ax", %progbits
	.globl	arch_scratch_page
	.hidden	arch_scratch_page
	.type	arch_scratch_page, %object
	.p2align 12
arch_scratch_page:
	bti	c
	mov	w0, #0
	ret
	.fill	(arch_scratch_page + 4096 - .) / 4, 4, 0xd4200000	/* brk #0 */
	.size	arch_scratch_page, . - arch_scratch_page

#include "landing_pads.inc"

	.section .note.GNU-stack, "", %progbits
