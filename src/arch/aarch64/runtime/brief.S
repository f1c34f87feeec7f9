/*
 * The recorders of functions whose calls may be brief, AArch64 (probe/brief.h).  How stubs call them, and what they may
 * touch: entry.S.
 *
 * A recorder writes a record of four bytes and no time for a brief function.  The bound on the record's time rests on
 * the order of three steps (doc/design/clock.md): the tick that the thread has seen is loaded, the place in the ring is taken,
 * and then that tick must be the present one.  If it is not, the place becomes a PAD, and C records the time.  The
 * place is taken by a load-acquire: by another load the CPU could have the present tick before it.
 *
 * A call with times has FRAME_EXACT in its link, and so its exit has one, too.
 *
 * As in entry.S, the fast recorders do the common case.  When they go to C, only the ring's cursor has changed, the
 * count of calls, and at an entry the words of S in the planes.
 */
#include "recorder.inc"

#if PT_WRITER != 0 || RW_CURSOR != 0 || PS_TOP != 0 || TM_TICK != 0
#error "members that the code uses without an offset"
#endif

#define ID_MASK	   ((1 << ID_BITS) - 1)
#define KIND_BITS  0xf0000000 /* from a stub's word: eor makes ENTRY BRIEF_ENTRY, orr makes EXIT BRIEF_EXIT */
#define EXACT_MASK (1 << EXACT_BIT)

	.text

/*
 * Take half a word of the ring whose writer is in x16; x1 becomes the address behind it.  x0: struct calltap_times;
 * \seen: the tick that the thread has seen.  To x0: how far into the sub-buffer x1 is; to \seen: the sub-buffer's span.
 * moved: the tick is another.
 */
.macro take_half seen, failed, moved
1:	ldaxr	x1, [x16]
	add	x1, x1, #4
	stxr	\failed, x1, [x16]
	cbnz	\failed, 1b
	ldr	x0, [x0]
	cmp	x0, \seen
	ldp	x0, \seen, [x16, #RW_BASE]	/* one load decides: see ring/writer.h */
	sub	x0, x1, x0
	b.ne	\moved
.endm

/* The half that take_half took becomes a PAD, if it lies in the sub-buffer. */
.macro pad_half span
	sub	x0, x0, #4
	cmp	x0, \span
	b.hs	1f
	mov	w0, #-1
	str	w0, [x1, #-4]
1:
.endm

/*
 * Take a whole word of the ring whose writer is in x16: \end becomes the address behind it.  To \time: the clock, with
 * no record of a handler's between it and the word; to \cursor: where the ring was before.  slow: the clock's high half
 * is another.
 */
.macro take_whole end, time, cursor, failed, slow
1:	ldr	\cursor, [x16]
	ldr	w\end, [x16, #RW_TIME_HI]
	mrs	x\time, cntvct_el0
	cmp	x\end, x\time, lsr #32
	b.ne	\slow
2:	ldxr	x\end, [x16]
	cmp	x\end, \cursor
	b.ne	1b				/* a handler has taken it */
	add	x\end, \cursor, #12
	and	x\end, x\end, #-8
	stxr	\failed, x\end, [x16]
	cbnz	\failed, 2b
.endm

/* The half before the word that ends at \end becomes a PAD if it was left over.  w3 is changed. */
.macro pad_left end, cursor
	sub	x3, \end, #8
	cmp	x3, \cursor
	b.eq	1f
	mov	w3, #-1
	str	w3, [\cursor]
1:
.endm

/*
 * A new count of calls up to the next one that has its times, from a random number of 16 bits: as many as TM_EVERY on
 * average (probe/brief.c).  x16: the thread's block.
 */
.macro draw_count count, spare, times
	ldr	w\count, [x16, #PT_SEED]
	mov	w\spare, #(RANDOM_BY & 0xffff)
	movk	w\spare, #(RANDOM_BY >> 16), lsl #16
	mul	w\count, w\count, w\spare
	mov	w\spare, #(RANDOM_MORE & 0xffff)
	movk	w\spare, #(RANDOM_MORE >> 16), lsl #16
	add	w\count, w\count, w\spare
	str	w\count, [x16, #PT_SEED]
	lsr	w\count, w\count, #16
	ldr	w\spare, [\times, #TM_EVERY]
	mul	w\count, w\count, w\spare
	lsr	w\count, w\count, #15
	str	w\count, [x16, #PT_SAMPLE]
.endm

/* To w\brief: is the function brief whose stub x30 is in? */
.macro get_brief brief, times
	ldr	w\brief, [x30, #STUB_WORD]
	and	w\brief, w\brief, #ID_MASK
	add	x\brief, x\brief, \times
	add	x\brief, x\brief, #TM_BRIEF
	ldrb	w\brief, [x\brief]
.endm

/* Is the call to have a time?  x16: the thread's block; exact: its function is not brief; sampled: it is its turn. */
.macro want_brief spare, exact, sampled
	get_brief \spare, x0
	cbz	w\spare, \exact
	ldr	w\spare, [x16, #PT_SAMPLE]
	subs	w\spare, w\spare, #1
	str	w\spare, [x16, #PT_SAMPLE]
	b.mi	\sampled
.endm

/* Does the word that ends at \end lie in the sub-buffer of the writer in x16?  x3 and \span are changed. */
.macro check_whole end, span, slow
	ldp	x3, \span, [x16, #RW_BASE]
	sub	x3, \end, x3
	sub	x3, x3, #8
	cmp	x3, \span
	b.hs	\slow
.endm

/* x17: the caller; x30: the stub's `bl body`. */
function arch_entry_brief
	open_frame PT_GRANULE, 0, .Lentry_slow, .Lentry_other
	get_times x0
	want_brief 17, .Lentry_exact, .Lentry_sampled
	ldr	x17, [x16, #PT_TICK]
	ldr	x16, [x16]			/* the writer */
	take_half x17, w3, .Lentry_moved
	sub	x0, x0, #4
	cmp	x0, x17
	b.hs	.Lentry_again
	add	x0, sp, #24			/* S */
	eor	x3, x0, #MIRROR_MASK
	ldr	x30, [x3, #-8]
	ldr	w3, [x30, #STUB_WORD]
	eor	w3, w3, #KIND_BITS
	str	w3, [x1, #-4]			/* the record: visible from here on */
	str	x0, [x2]
.Lentry_done:
	restore_four
	ret

	.cfi_adjust_cfa_offset 32
.Lentry_sampled:
	draw_count 17, 30, x0
.Lentry_exact:
	orr	x3, x3, #EXACT_MASK
	str	x3, [x1]
	ldr	x16, [x16]			/* the writer */
	take_whole 1, 0, x17, w3, .Lentry_again
	check_whole x1, x30, .Lentry_again
	pad_left x1, x17
	add	x17, sp, #24			/* S */
	eor	x3, x17, #MIRROR_MASK
	ldr	x30, [x3, #-8]
	ldr	w3, [x30, #STUB_WORD]
	bfi	x0, x3, #32, #32
	str	x0, [x1, #-8]			/* the record: visible from here on */
	str	x17, [x2]
	b	.Lentry_done

.Lentry_moved:
	pad_half x17
.Lentry_again:
	add	x0, sp, #24
	eor	x0, x0, #MIRROR_MASK
	ldp	x30, x17, [x0, #-8]
	.cfi_restore_state
	b	.Lentry_slow
	/*
	 * The frame goes on under another name.  A brief call leaves it to the caller whether the exit has a time.  x17 and x30
	 * stay as they are.
	 */
.Lentry_other:
	find_tail .Lentry_slow
	get_times x0
	want_brief 1, .Ltail_exact, .Ltail_sampled
	ldr	x2, [x16, #PT_TICK]
	ldr	x16, [x16]			/* the writer */
	take_half x2, w3, .Ltail_moved
	sub	x0, x0, #4
	cmp	x0, x2
	b.hs	.Lentry_slow
	add	x0, sp, #24			/* S */
	rename_frame x3
	ldr	w3, [x30, #STUB_WORD]
	eor	w3, w3, #KIND_BITS
	orr	w3, w3, #BRIEF_TAIL
	str	w3, [x1, #-4]			/* the record: visible from here on */
	.cfi_remember_state
	restore_four
	ret
	.cfi_restore_state
.Ltail_sampled:
	draw_count 1, 2, x0
.Ltail_exact:
	ldr	x16, [x16]			/* the writer */
	take_whole 1, 0, x2, w3, .Lentry_slow
	check_whole x1, x16, .Lentry_slow
	pad_left x1, x2
	ldr	w3, [x30, #STUB_WORD]
	orr	w3, w3, #TO_TAIL
	bfi	x0, x3, #32, #32
	mov	x2, x0
	add	x0, sp, #24			/* S */
	rename_frame x3
	str	x2, [x1, #-8]			/* the record: visible from here on */
	eor	x0, x0, #(MIRROR_MASK ^ LINK_MASK)
	ldr	x3, [x0]
	orr	x3, x3, #EXACT_MASK
	str	x3, [x0]
	.cfi_remember_state
	restore_four
	ret
	.cfi_restore_state
.Ltail_moved:
	pad_half x2
.Lentry_slow:
	adrp	x16, probe_brief_entry
	add	x16, x16, :lo12:probe_brief_entry
	b	arch_entry_to_c
end_function arch_entry_brief

/* x17: the exit's word. */
function arch_exit_brief
	CFI_RETURN_BY_MIRROR
	bti	c
	find_exit .Lexit_slow
	eor	x0, x0, #(MIRROR_MASK ^ LINK_MASK)
	ldr	x3, [x0]
	tbnz	x3, #EXACT_BIT, .Lexit_exact
	get_times x0
	ldr	x30, [x16, #PT_TICK]
	ldr	x16, [x16]			/* the writer */
	take_half x30, w3, .Lexit_moved
	sub	x0, x0, #4
	cmp	x0, x30
	b.hs	.Lexit_slow
	orr	w17, w17, #KIND_BITS
	str	w17, [x1, #-4]			/* the record: visible from here on */
.Lexit_unlink:
	add	x0, sp, #24
	eor	x0, x0, #MIRROR_MASK
	close_frame EXACT_MASK

.Lexit_exact:
	ldr	x16, [x16]			/* the writer */
	take_whole 0, 1, x30, w3, .Lexit_slow
	bfi	x1, x17, #32, #32
	check_whole x0, x17, .Lexit_slow_word
	pad_left x0, x30
	str	x1, [x0, #-8]			/* the record: visible from here on */
	b	.Lexit_unlink

.Lexit_slow_word:
	lsr	x17, x1, #32
	b	.Lexit_slow
.Lexit_moved:
	pad_half x30
.Lexit_slow:
	adrp	x16, probe_brief_exit
	add	x16, x16, :lo12:probe_brief_exit
	b	arch_exit_to_c
end_function arch_exit_brief

#include "landing_pads.inc"

	.section .note.GNU-stack, "", %progbits
