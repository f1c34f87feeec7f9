/*
 * The recorders of tracer profile with `--time adaptive`, riscv64.  How stubs call them, and what they may touch: entry.S.
 *
 * The recorders of profile.S read the clock, those of this file do not: the time of a frame is the tick that its thread
 * has seen last (calltap/abi/times.h).  A call that begins and ends under one tick takes no time by it, and is counted; C adds up all others.
 * doc/design/profile.md has the argument.
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
	recorder arch_entry_ticked
	find_frame PT_TIMED, .Lentry_slow, .Lentry_slow
	lw	t6, STUB_ENTRY_WORD(ra)
	sd	ra, -8(t4)
	sd	t1, 0(t4)
	CFI_CALLER_IN_MIRROR
	present_tick ra, t3, t1, .Lentry_undo
	ld	t3, PT_TABLE(t3)
	find_entry t6, t1, t6, t3, t1, .Lentry_undo
	enter_table
	recorder_end arch_entry_ticked

/* In: t3 the stub's words.  A frame's planes are there since it was entered, in whatever granule. */
	recorder arch_exit_ticked
	CFI_CALLER_IN_MIRROR
	landing_pad
	load_thread t4
	addi	t1, sp, -8			/* S */
	ld	t5, PT_STACK(t4)
	ld	t0, PS_TOP(t5)
	bne	t0, t1, .Lexit_slow		/* inner frames are gone, or another stack */
	present_tick t6, t4, t0, .Lexit_slow
	li	t0, AT_ENTERED
	xor	t0, t1, t0
	ld	t0, 0(t0)
	bne	t0, t6, .Lexit_slow		/* the tick has changed since, or a fork has come between */
	ld	t4, PT_TABLE(t4)
	lw	t2, STUB_EXIT_WORD(t3)
	find_entry t2, t0, t2, t4, t0, .Lexit_slow
	ld	t0, TB_WATCH(t4)
	beq	t2, t0, .Lexit_slow		/* the function's callers are counted */
	li	t0, 1
	amoadd.d zero, t0, (t2)			/* PE_CALLS */
	ld	t0, PE_OUTER(t2)
	bne	t0, t1, 1f			/* the inner call of a recursion */
	sd	zero, PE_OUTER(t2)
1:	unlink_frame t1, t0
	sd	t0, PS_TOP(t5)
	ret

.Lexit_slow:
	CFI_CALLER_IN_MIRROR
	lla	t4, probe_graph_exit
	j	arch_exit_to_c
	recorder_end arch_exit_ticked

	.section .note.GNU-stack, "", @progbits
