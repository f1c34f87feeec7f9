/*
 * The recorders of tracer profile, riscv64.  How stubs call them, and what they may touch: entry.S.
 *
 * A frame at S has the time of its entry at arch_entered(S), and at arch_within(S) the ticks that its traced callees
 * took.  An exit adds to the thread's table (probe/profile.h, calltap/abi/profile.h), to each word in one step, so that a
 * signal handler's calls are not lost.
 *
 * When the recorders go to C, an entry has changed only words of S in the planes that belong to no frame, and an exit
 * nothing.
 */
#include "recorder.inc"

#if PE_CALLS != 0
#error "amoadd.d has no offset"
#endif

	.option norelax
	.text

/* In: t0 body, t1 caller, ra the stub. */
	recorder arch_entry_profile
	find_frame PT_TIMED, .Lentry_slow, .Lentry_slow
	lw	t6, STUB_ENTRY_WORD(ra)
	sd	ra, -8(t4)
	sd	t1, 0(t4)
	CFI_CALLER_IN_MIRROR
	ld	t3, PT_TABLE(t3)
	find_entry t6, t1, t6, t3, t1, .Lentry_undo
	li	t1, AT_MIRROR ^ AT_WITHIN
	xor	t1, t4, t1
	sd	zero, 0(t1)
	rdtime	ra
	enter_table
	recorder_end arch_entry_profile

/*
 * In: t3 the stub's words.  t4: the table, and then its first entry; t5: the stack; t2: the function's entry; t6: the
 * call's ticks; ra: the ticks less the callees'; t1: where the call's bucket is, as PP_PENDING tells it.
 */
	recorder arch_exit_profile
	CFI_CALLER_IN_MIRROR
	landing_pad
	rdtime	t6
	load_thread t4
	addi	t1, sp, -8			/* S */
	srli	t0, t1, GRANULE_BITS
	ld	t2, PT_TIMED(t4)
	bne	t0, t2, .Lexit_slow
	ld	t5, PT_STACK(t4)
	ld	t0, PS_TOP(t5)
	bne	t0, t1, .Lexit_slow		/* inner frames are gone, or another stack */
	ld	t4, PT_TABLE(t4)
	lw	t2, STUB_EXIT_WORD(t3)
	find_entry t2, t0, t2, t4, ra, .Lexit_slow
	lui	ra, 1
	sub	ra, t0, ra
	lw	ra, RING_WATCH + 4096 - PP_BYTES(ra)
	addiw	ra, ra, -1
	slli	ra, ra, PE_BITS
	add	ra, ra, t0
	beq	t2, ra, .Lexit_slow		/* the function's callers are counted */
	ld	ra, PP_PENDING - PP_BYTES(t0)
	ld	t1, TB_FIRST(t4)
	sub	ra, ra, t1
	ld	t1, TB_SPAN(t4)
	bgeu	ra, t1, .Lexit_slow		/* no call was counted before */
	ld	ra, TB_CLAIMED(t4)
	mv	t4, t0				/* the first entry */
	li	t1, AT_ENTERED
	addi	t0, sp, -8			/* S */
	xor	t1, t1, t0
	ld	t0, 0(t1)
	bltu	t0, ra, .Lexit_slow		/* entered before a fork */
	bltu	t6, t0, .Lexit_slow		/* the clock has gone back */
	sub	t6, t6, t0
	li	t0, AT_ENTERED ^ AT_WITHIN
	xor	t1, t1, t0
	ld	t1, 0(t1)
	bltu	t6, t1, .Lexit_slow
	sub	ra, t6, t1
	srli	t0, t6, LONGEST_BITS + 1
	bnez	t0, .Lexit_slow
	addi	t0, t6, -8			/* bucket 4 * (e - 1) + q: see calltap_profile_bucket() */
	li	t1, 8				/* t0 + t1: what is left of the ticks, and 4 for each time that it was halved */
	bltz	t0, 2f
1:	srli	t0, t0, 1
	addi	t0, t0, -4
	addi	t1, t1, 4
	bgez	t0, 1b				/* up to 4 + q */
2:	add	t1, t1, t0
	slli	t1, t1, 3
	ld	t0, PE_HISTOGRAM(t2)
	beqz	t0, .Lexit_slow
	add	t1, t1, t0
	ld	t0, PP_PENDING - PP_BYTES(t4)	/* the last call's bucket: see count_bucket() */
	add	t0, t0, t4
	addi	t0, t0, -PP_BYTES
	li	t3, 1
	amoadd.d zero, t3, (t0)
	sd	t1, PP_PENDING - PP_BYTES(t4)
	amoadd.d zero, t3, (t2)			/* PE_CALLS */
	addi	t0, t2, PE_SELF
	amoadd.d zero, ra, (t0)
	ld	t0, PE_MAX(t2)
	bgeu	t0, t6, 3f
	sd	t6, PE_MAX(t2)
3:	addi	t1, sp, -8
	ld	t0, PE_OUTER(t2)
	bne	t0, t1, 4f			/* the inner call of a recursion */
	sd	zero, PE_OUTER(t2)
	addi	t0, t2, PE_TOTAL
	amoadd.d zero, t6, (t0)
4:	unlink_frame t1, t0
	ld	t1, PS_REST(t5)
	bgeu	t0, t1, 5f			/* there is no outer frame */
	li	t1, AT_WITHIN
	xor	t1, t1, t0
	amoadd.d zero, t6, (t1)
5:	sd	t0, PS_TOP(t5)
	ret

.Lexit_slow:
	CFI_CALLER_IN_MIRROR
	lla	t4, probe_graph_exit
	j	arch_exit_to_c
	recorder_end arch_exit_profile

	.section .note.GNU-stack, "", @progbits
