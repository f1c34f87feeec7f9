/*
 * The recorders of functions whose calls may be brief, riscv64 (probe/brief.h).  How stubs call them, and what they may
 * touch: entry.S.
 *
 * A recorder writes a record of four bytes and no time for a brief function.  The bound on the record's time rests on
 * the order of three steps (doc/design/clock.md): the tick that the thread has seen is loaded, the place in the ring is taken,
 * and then that tick must be the present one.  If it is not, the place becomes a PAD, and C records the time.  The
 * place is taken by an acquire: without it the core could load the present tick before that.
 *
 * A call with times has FRAME_EXACT in its link, and so its exit has one, too.
 *
 * As in entry.S, the fast recorders do the common case.  When they go to C, only the ring's cursor has changed, and the
 * count of calls.
 */
#include "recorder.inc"

#define TO_BRIEF   0xd0000 /* upper 20 bits: from ENTRY to BRIEF_ENTRY in a stub's word, and from EXIT to BRIEF_EXIT */
#define KIND_BITS  4

	.option norelax
	.text

/*
 * Take half a word of the ring whose writer is in \writer: \half becomes its address.  \times: struct calltap_times,
 * \seen: the tick that the thread has seen.  moved: the tick is another; slow: there is no room.  \times and \writer are
 * changed.
 */
.macro take_half half, writer, times, seen, moved, slow
	li	\half, 4
	amoadd.d.aq \half, \half, RW_CURSOR(\writer)
	ld	\times, TM_TICK(\times)
	bne	\times, \seen, \moved
	ld	\times, RW_BASE(\writer)	/* one load decides: see ring/writer.h */
	ld	\writer, RW_SPAN(\writer)
	sub	\times, \half, \times
	bgeu	\times, \writer, \slow
.endm

/* The half that take_half took becomes a PAD, if it lies in the sub-buffer.  \writer is changed. */
.macro pad_half half, writer, spare
	ld	\spare, RW_BASE(\writer)
	ld	\writer, RW_SPAN(\writer)
	sub	\spare, \half, \spare
	bgeu	\spare, \writer, 1f
	li	\spare, -1
	sw	\spare, 0(\half)
1:
.endm

/*
 * Take a whole word of the ring whose writer is in \writer: \word becomes its address.  To \time: the clock's lower half,
 * with no record of a handler's between it and the word.  The half before it becomes a PAD if it was left over.  slow:
 * the clock's high half is another, or there is no room.  All are changed.
 */
.macro take_whole word, writer, time, cursor, spare, slow
1:	ld	\cursor, RW_CURSOR(\writer)
	rdtime	\time
	lwu	\word, RW_TIME_HI(\writer)
	slli	\word, \word, 32
	sub	\time, \time, \word
	srli	\word, \time, 32
	bnez	\word, \slow
2:	lr.d	\word, (\writer)
	bne	\word, \cursor, 1b		/* a handler has taken it */
	addi	\word, \cursor, 12
	andi	\word, \word, -8
	sc.d	\word, \word, (\writer)
	bnez	\word, 2b
	addi	\word, \cursor, 4
	andi	\word, \word, -8
	ld	\spare, RW_BASE(\writer)
	ld	\writer, RW_SPAN(\writer)
	sub	\spare, \word, \spare
	bgeu	\spare, \writer, \slow
	beq	\word, \cursor, 3f
	li	\spare, -1
	sw	\spare, 0(\cursor)
3:
.endm

#if EXACT_BIT != 63 || TO_TAIL != 1 << 31
#error "one bit for both"
#endif
#if RW_CURSOR != 0
#error "lr.d and sc.d have no offset"
#endif

/* The mirror of S. */
.macro find_mirror mirror, spare
	addi	\mirror, sp, -8
	flip	\mirror, MIRROR_BIT, MIRROR_SKEW, \spare
.endm

/*
 * A new count of calls up to the next one that has its times, from a random number of 16 bits: as many as TM_EVERY on
 * average (probe/brief.c).  t3: the thread's block.
 */
.macro draw_count count, spare, times
	lw	\count, PT_SEED(t3)
	li	\spare, RANDOM_BY
	mulw	\count, \count, \spare
	li	\spare, RANDOM_MORE
	addw	\count, \count, \spare
	sw	\count, PT_SEED(t3)
	srliw	\count, \count, 16
	lw	\spare, TM_EVERY(\times)
	mulw	\count, \count, \spare
	srliw	\count, \count, 15
	sw	\count, PT_SAMPLE(t3)
.endm

/* From a stub's word in \word to: is the function brief? */
.macro get_brief word, spare, times
	slli	\word, \word, 32 + KIND_BITS
	srli	\word, \word, 32 + KIND_BITS	/* the id */
	add	\word, \word, \times
	lui	\spare, TM_BRIEF >> 12
	add	\word, \word, \spare
	lbu	\word, 0(\word)
.endm

/* Is the call to have a time?  \word: the stub's; exact: its function is not brief; sampled: it is its turn. */
.macro want_brief word, spare, times, exact, sampled
	get_brief \word, \spare, \times
	beqz	\word, \exact
	lw	\word, PT_SAMPLE(t3)
	addiw	\word, \word, -1
	sw	\word, PT_SAMPLE(t3)
	bltz	\word, \sampled
.endm

/* In: t0 body, t1 caller, ra the stub. */
	recorder arch_entry_brief
	find_frame PT_GRANULE, .Lentry_slow, .Lentry_not_below
	lw	t6, STUB_ENTRY_WORD(ra)
	sd	ra, -8(t4)
	sd	t1, 0(t4)
	load_times ra
	CFI_CALLER_IN_MIRROR
	want_brief t6, t1, ra, .Lentry_exact, .Lentry_sampled
	ld	t6, PT_TICK(t3)
	ld	t3, PT_WRITER(t3)
	take_half t1, t3, ra, t6, .Lentry_moved, .Lentry_undo
	ld	ra, -8(t4)
	lw	t6, STUB_ENTRY_WORD(ra)
	lui	t3, TO_BRIEF
	add	t6, t6, t3
	sw	t6, 0(t1)			/* the record: visible from here on */
	join_stack

.Lentry_sampled:
	draw_count t6, t1, ra
.Lentry_exact:
	ld	t3, PT_WRITER(t3)
	take_whole t1, t3, t6, ra, t4, .Lentry_undo
	find_mirror t4, t3
	ld	ra, -8(t4)
	lw	t3, STUB_ENTRY_WORD(ra)
	slli	t3, t3, 32
	or	t6, t6, t3
	sd	t6, 0(t1)			/* the record: visible from here on */
	flip	t4, LINK_BIT, LINK_SKEW, t6
	ld	t6, PS_TOP(t5)
	li	t3, 1
	slli	t3, t3, EXACT_BIT
	or	t6, t6, t3
	sd	t6, 0(t4)
	addi	t6, sp, -8
	sd	t6, PS_TOP(t5)
	ret

.Lentry_moved:
	pad_half t1, t3, t6
.Lentry_undo:
	find_mirror t4, t6
	ld	t1, 0(t4)
	CFI_CALLER_IN_T1
	ld	ra, -8(t4)
	sd	zero, 0(t4)
	j	.Lentry_slow

	/*
	 * The frame goes on under another name.  A brief call leaves it to the caller whether the exit has a time.  t1 stays
	 * as it is; the frame is renamed before C would be, where ra is needed.
	 */
.Lentry_not_below:
	find_tail .Lentry_slow
	load_times t6
	lw	t5, STUB_ENTRY_WORD(ra)
	want_brief t5, t4, t6, .Ltail_exact, .Ltail_sampled
	ld	t4, PT_TICK(t3)
	ld	t3, PT_WRITER(t3)
	take_half t5, t3, t6, t4, .Ltail_moved, .Lentry_slow
	rename_frame t4, t3
	lw	t6, STUB_ENTRY_WORD(ra)
	lui	t3, TO_BRIEF + (BRIEF_TAIL >> 12)
	add	t6, t6, t3
	sw	t6, 0(t5)			/* the record: visible from here on */
	ret
.Ltail_sampled:
	draw_count t5, t4, t6
.Ltail_exact:
	rename_frame t4, t5
	ld	t3, PT_WRITER(t3)
	take_whole t5, t3, t6, t4, ra, .Ltail_renamed
	find_mirror t4, t3
	ld	ra, -8(t4)
	lw	t3, STUB_ENTRY_WORD(ra)
	slli	t3, t3, 32
	or	t6, t6, t3
	li	t3, 1
	slli	t3, t3, 63			/* makes ENTRY TAIL */
	or	t6, t6, t3
	sd	t6, 0(t5)			/* the record: visible from here on */
	flip	t4, LINK_BIT, LINK_SKEW, t6
	ld	t6, 0(t4)
	or	t6, t6, t3			/* FRAME_EXACT */
	sd	t6, 0(t4)
	ret
.Ltail_renamed:
	find_mirror t4, t6
	ld	ra, -8(t4)
	j	.Lentry_slow
.Ltail_moved:
	pad_half t5, t3, t6
.Lentry_slow:
	lla	t3, probe_brief_entry
	j	arch_entry_to_c
	recorder_end arch_entry_brief

/* In: t3 the stub's words. */
	recorder arch_exit_brief
	CFI_CALLER_IN_MIRROR
	landing_pad
	load_thread t4
	addi	t1, sp, -8			/* S */
	ld	t5, PT_STACK(t4)
	ld	t0, PS_TOP(t5)
	bne	t0, t1, .Lexit_slow		/* inner frames are gone, or another stack */
	flip	t1, MIRROR_BIT, MIRROR_SKEW, t0
	mv	t2, t1
	flip	t2, LINK_BIT, LINK_SKEW, t0
	ld	t2, 0(t2)			/* S of the next outer frame, and flags */
	bltz	t2, .Lexit_exact
	load_times t6
	ld	ra, PT_TICK(t4)
	ld	t4, PT_WRITER(t4)
	take_half t0, t4, t6, ra, .Lexit_moved, .Lexit_slow
	lw	t6, STUB_EXIT_WORD(t3)
	lui	t4, TO_BRIEF
	add	t6, t6, t4
	sw	t6, 0(t0)			/* the record: visible from here on */
	ld	ra, 0(t1)
	CFI_CALLER_IN_RA
	sd	zero, 0(t1)
	sd	t2, PS_TOP(t5)
	ret

.Lexit_exact:
	CFI_CALLER_IN_MIRROR
	ld	t4, PT_WRITER(t4)
	take_whole t0, t4, t6, ra, t1, .Lexit_slow
	lw	t4, STUB_EXIT_WORD(t3)
	slli	t4, t4, 32
	or	t6, t6, t4
	sd	t6, 0(t0)			/* the record: visible from here on */
	find_mirror t1, t0
	ld	ra, 0(t1)
	CFI_CALLER_IN_RA
	sd	zero, 0(t1)
	slli	t2, t2, 64 - EXACT_BIT
	srli	t2, t2, 64 - EXACT_BIT
	sd	t2, PS_TOP(t5)
	ret

.Lexit_moved:
	CFI_CALLER_IN_MIRROR
	pad_half t0, t4, t6
.Lexit_slow:
	lla	t4, probe_brief_exit
	j	arch_exit_to_c
	recorder_end arch_exit_brief

	.section .note.GNU-stack, "", @progbits
