/*
 * The recorders of tracer profile, AArch64.  How stubs call them, and what they may touch: entry.S.
 *
 * A frame at S has the time of its entry at arch_entered(S), and at arch_within(S) the ticks that its traced callees
 * took.  An exit adds to the thread's table (probe/profile.h, calltap/abi/profile.h), to each word in one step, so that a
 * signal handler's calls are not lost.
 *
 * When the recorders go to C, an entry has changed only the words of S in the planes, and an exit nothing.
 */
#include "recorder.inc"

#if PS_TOP != 0 || PE_CALLS != 0 || TB_SPAN != TB_FIRST + 8 || PE_SINCE != PE_OUTER + 8
#error "members that the code uses without an offset, or as pairs"
#endif

	.text

/* x17: the caller; x30: the stub's `bl body`. */
function arch_entry_profile
	open_frame PT_TIMED, 1, .Lentry_slow, .Lentry_slow
	ldr	x16, [x16, #PT_TABLE]
	ldr	w3, [x30, #STUB_WORD]
	find_entry x3, x1, x3, x16, x1, .Lentry_again
	add	x17, sp, #24			/* S */
	find_timed x1, x17, WITHIN_BITS, WITHIN_SKEW
	str	xzr, [x1]
	mrs	x0, cntvct_el0
	enter_table
end_function arch_entry_profile

/* Six registers are saved. */
.macro save_two_more
	stp	x4, x5, [sp, #-16]!
	.cfi_adjust_cfa_offset 16
.endm

.macro restore_two_more
	ldp	x4, x5, [sp], #16
	.cfi_adjust_cfa_offset -16
.endm

/*
 * x17: the exit's word; x2: the stack; x16: the table; x30: its first entry; x3: the function's; x4: the call's ticks; x5:
 * the ticks less the callees'; x1: where the call's bucket is, as PP_PENDING tells it.
 */
function arch_exit_profile
	CFI_RETURN_BY_MIRROR
	bti	c
	save_four
	save_two_more
	mrs	x4, cntvct_el0
	get_thread x16, x1
	add	x0, sp, #40			/* S */
	ldr	x1, [x16, #PT_TIMED]
	ldr	x2, [x16, #PT_STACK]
	cmp	x1, x0, lsr #GRANULE_BITS
	ldr	x3, [x2]
	ccmp	x3, x0, #0, eq
	b.ne	.Lexit_slow			/* another granule, inner frames are gone, or another stack */
	ldr	x16, [x16, #PT_TABLE]
	find_entry x3, x30, x17, x16, x1, .Lexit_slow
	sub	x1, x30, #4096
	ldr	w1, [x1, #(RING_WATCH + 4096 - PP_BYTES)]
	sub	w1, w1, #1
	ubfx	w5, w17, #0, #ID_BITS
	cmp	w1, w5
	b.eq	.Lexit_slow			/* the function's callers are counted */
	ldr	x1, [x30, #(PP_PENDING - PP_BYTES)]
	ldp	x5, x0, [x16, #TB_FIRST]	/* and TB_SPAN */
	sub	x1, x1, x5
	cmp	x1, x0
	b.hs	.Lexit_slow			/* no call was counted before */
	add	x0, sp, #40			/* S */
	find_timed x1, x0, ENTERED_BITS, ENTERED_SKEW
	ldr	x5, [x1]
	ldr	x16, [x16, #TB_CLAIMED]
	subs	x4, x4, x5
	ccmp	x5, x16, #0, hs
	b.lo	.Lexit_slow			/* the clock has gone back, or a fork has come between */
	eor	x1, x1, #((ENTERED_BITS ^ WITHIN_BITS) << TIMED_SHIFT)
	eor	x1, x1, #(ENTERED_SKEW ^ WITHIN_SKEW)
	ldr	x1, [x1]
	subs	x5, x4, x1
	b.lo	.Lexit_slow
	orr	x1, x4, #4			/* bucket 4 * (e - 1) + q: see calltap_profile_bucket(); e is 2 at least */
	clz	x1, x1
	eor	x1, x1, #63
	sub	x1, x1, #2
	cmp	x1, #(LONGEST_BITS - 2)
	b.hi	.Lexit_slow
	lsr	x0, x4, x1
	add	x0, x0, x1, lsl #2
	ldr	x1, [x3, #PE_HISTOGRAM]
	cbz	x1, .Lexit_slow
	add	x1, x1, x0, lsl #3
	ldr	x0, [x30, #(PP_PENDING - PP_BYTES)]	/* the last call's bucket: see count_bucket() */
	add	x0, x0, x30
	sub	x0, x0, #PP_BYTES
	add_to	x0, #1, x17, w16
	str	x1, [x30, #(PP_PENDING - PP_BYTES)]
	add_to	x3, #1, x17, w16
	add	x0, x3, #PE_SELF
	add_to	x0, x5, x17, w16
	ldr	x0, [x3, #PE_MAX]
	cmp	x4, x0
	b.ls	1f
	str	x4, [x3, #PE_MAX]
1:	add	x0, sp, #40
	ldr	x1, [x3, #PE_OUTER]
	cmp	x1, x0
	b.ne	2f				/* the inner call of a recursion */
	str	xzr, [x3, #PE_OUTER]
	add	x3, x3, #PE_TOTAL
	add_to	x3, x4, x17, w16
2:	eor	x0, x0, #MIRROR_MASK
	.cfi_remember_state
	unlink_frame
	ldr	x1, [x2, #PS_REST]
	cmp	x3, x1
	b.hs	3f				/* there is no outer frame */
	find_timed x0, x3, WITHIN_BITS, WITHIN_SKEW
	add_to	x0, x4, x1, w17
3:	str	x3, [x2]
	restore_two_more
	restore_four
	ret
	.cfi_restore_state

.Lexit_slow:
	restore_two_more
	adrp	x16, probe_graph_exit
	add	x16, x16, :lo12:probe_graph_exit
	b	arch_exit_to_c
end_function arch_exit_profile

#include "landing_pads.inc"

	.section .note.GNU-stack, "", %progbits
