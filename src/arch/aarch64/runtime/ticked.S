/*
 * The recorders of tracer profile with `--time adaptive`, AArch64.  How stubs call them, and what they may touch: entry.S.
 *
 * The recorders of profile.S read the clock, those of this file do not: the time of a frame is the tick that its thread
 * has seen last (calltap/abi/times.h).  A call that begins and ends under one tick takes no time by it, and is counted; C adds up all others.
 * doc/design/profile.md has the argument.
 *
 * When the recorders go to C, an entry has changed only the words of S in the planes, and an exit nothing.
 */
#include "recorder.inc"

#if PS_TOP != 0 || PE_CALLS != 0 || TB_WATCH != TB_END + 8 || PE_SINCE != PE_OUTER + 8
#error "members that the code uses without an offset, or as pairs"
#endif

	.text

/* x17: the caller; x30: the stub's `bl body`. */
function arch_entry_ticked
	open_frame PT_TIMED, 1, .Lentry_slow, .Lentry_slow
	present_tick x0, x16, x1, .Lentry_again
	ldr	x16, [x16, #PT_TABLE]
	ldr	w3, [x30, #STUB_WORD]
	find_entry x3, x1, x3, x16, x1, .Lentry_again
	enter_table
end_function arch_entry_ticked

/* x17: the exit's word.  A frame's planes are there since it was entered, in whatever granule. */
function arch_exit_ticked
	CFI_RETURN_BY_MIRROR
	bti	c
	find_exit .Lexit_slow
	present_tick x1, x16, x3, .Lexit_slow
	find_timed x3, x0, ENTERED_BITS, ENTERED_SKEW
	ldr	x3, [x3]
	cmp	x3, x1
	b.ne	.Lexit_slow			/* the tick has changed since, or a fork has come between */
	ldr	x16, [x16, #PT_TABLE]
	ldr	x1, [x16, #TB_ENTRIES]		/* before the end: see find_entry */
	ubfx	x30, x17, #0, #ID_BITS
	add	x30, x1, x30, lsl #PE_BITS
	ldp	x1, x3, [x16, #TB_END]		/* and TB_WATCH */
	cmp	x30, x1
	ccmp	x30, x3, #4, lo
	b.eq	.Lexit_slow			/* not in the table, or the function's callers are counted */
	add_to	x30, #1, x3, w16
	ldr	x3, [x30, #PE_OUTER]
	cmp	x3, x0
	b.ne	1f				/* the inner call of a recursion */
	str	xzr, [x30, #PE_OUTER]
1:	eor	x0, x0, #MIRROR_MASK
	close_frame

.Lexit_slow:
	adrp	x16, probe_graph_exit
	add	x16, x16, :lo12:probe_graph_exit
	b	arch_exit_to_c
end_function arch_exit_ticked

#include "landing_pads.inc"

	.section .note.GNU-stack, "", %progbits
