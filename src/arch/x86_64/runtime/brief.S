/*
 * The recorders of functions whose calls may be brief, x86-64 (probe/brief.h).  How stubs call them, and what they may
 * touch: entry.S.
 *
 * A recorder writes a record of four bytes and no time for a brief function.  The bound on the record's time rests on
 * the order of three steps (doc/design/clock.md): the tick that the thread has seen is loaded, the place in the ring is taken,
 * and then that tick must be the present one.  If it is not, the place becomes a PAD, and C records the time.
 *
 * The recorder does not count calls to choose those that get times: that would cost a nanosecond a call.  It compares
 * each entry's place with a random one in the sub-buffer (RW_SPAN2); entries behind that count down a small random
 * number.
 *
 * A call with times has FRAME_EXACT in its link, and so its exit has one, too.
 *
 * The brief paths save registers that hold no argument in most functions, and no result: a value that goes through
 * memory comes some cycles later, and the program mostly waits for it.  Calls with times begin anew, with the registers
 * of entry.S.
 *
 * As in entry.S, the fast recorders do the common case, and nothing was changed when they go to C, but the ring's
 * cursor and the count of calls.
 */
#include "offsets.h"
#include "recorder.inc"

#define TO_BRIEF  0xd0000000			/* from ENTRY to BRIEF_ENTRY in a stub's word, and from EXIT to BRIEF_EXIT */
#define TO_BRIEF_TAIL (TO_BRIEF + BRIEF_TAIL)	/* from ENTRY to that of a tail call */
#define LEAF_TO_ENTRY (TO_BRIEF + BRIEF_LEAF)	/* from the word of a leaf's stub to its BRIEF_ENTRY */
#define LEAF_TO_EXIT  0xe0000000		/* and to its BRIEF_EXIT */
#define IN_A_ROW    3				/* bits of the random number, all 0 for one in four */

/*
 * The thread's block in r8, which becomes the writer, and struct calltap_times in \times; to r9: half a word.  moved: the
 * tick is not the one that the thread has seen, and r9 was taken; beyond: it does not lie before \span (of RW_SPAN and
 * RW_SPAN2).  To r11: where it lies in the sub-buffer.
 */
.macro take_half span, times, moved, beyond
	mov	%fs:PT_TICK(%r8), %r11
	mov	%fs:PT_WRITER(%r8), %r8
	mov	$4, %r9d
	xadd	%r9, RW_CURSOR(%r8)
	cmp	TM_TICK(\times), %r11
	jne	\moved
	mov	%r9, %r11
	sub	RW_BASE(%r8), %r11		/* one load decides: see ring/writer.h */
	cmp	\span(%r8), %r11
	jae	\beyond
.endm

/* Is the function of the stub with that word a brief one?  To exact if not.  To rax: struct calltap_times; r11 is changed. */
.macro see_brief word, exact
	mov	probe_times(%rip), %rax
	mov	\word, %r11d
	cmpb	$0, (TM_BRIEF - KIND_ENTRY)(%rax, %r11)
	je	\exact
.endm

/* The stub's word as a brief record, in the half that was taken.  r11 is changed. */
.macro put_half word, to
	mov	\word, %r11d
	add	$\to, %r11d
	mov	%r11d, (%r9)
.endm

/* The half that take_half took becomes a PAD, if it lies in the sub-buffer. */
.macro pad_half
	mov	%r9, %r11
	sub	RW_BASE(%r8), %r11
	cmp	RW_SPAN(%r8), %r11
	jae	.Lpadded\@
	movl	$-1, (%r9)
.Lpadded\@:
.endm

/*
 * The writer in rsi; to rdx: a slot of a whole word; to rax: the time, with no record of a handler's between it and the
 * slot.  The half before the slot becomes a PAD if it was left over.  rcx and rdi are changed.
 */
.macro take_whole slow
.Lagain\@:
	mov	RW_CURSOR(%rsi), %rdi
	rdtsc
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	\slow
	mov	%eax, %ecx
	mov	%rdi, %rax
	lea	12(%rax), %rdx
	and	$-8, %rdx			/* its end */
	cmpxchg	%rdx, RW_CURSOR(%rsi)
	jne	.Lagain\@			/* a handler has taken it */
	sub	$8, %rdx
	mov	%rdx, %rdi
	sub	RW_BASE(%rsi), %rdi
	cmp	RW_SPAN(%rsi), %rdi
	jae	\slow
	cmp	%rax, %rdx
	je	.Lwhole\@
	movl	$-1, (%rax)
.Lwhole\@:
	mov	%ecx, %eax
.endm

/*
 * The entry's place lies behind RW_SPAN2, so one from here on is to have a time.  Go on at put if it is not this one,
 * else at sampled, with a PAD in its half.  What take_half has left, with struct calltap_times in rax, which is changed.
 *
 * A random number of 32 bits: the upper 3 are how many entries the next one counts down, the 16 below say from where
 * on, which is 8 * TM_EVERY bytes away on average, or at the sub-buffer's end.  After one in four it is the very next
 * entry: so readers know how long callers take between two calls.
 */
.macro choose_sample put, sampled
	cmp	RW_SPAN(%r8), %r11
	jae	.Lentry_slow			/* no room */
	save	%rcx, %rdx
	thread_offset %rcx, %rdx
	decl	%fs:PT_SAMPLE(%rcx)
	js	.Lsampled\@
	.cfi_remember_state
	restore	%rdx, %rcx
	jmp	\put
	.cfi_restore_state
.Lsampled\@:
	movl	$-1, (%r9)
	imul	$RANDOM_BY, %fs:PT_SEED(%rcx), %edx
	add	$RANDOM_MORE, %edx
	mov	%edx, %fs:PT_SEED(%rcx)
	mov	%edx, %r9d
	shr	$29, %r9d
	shr	$13, %edx
	test	$IN_A_ROW, %edx
	jz	1f				/* the very next entry */
	movzwl	%dx, %edx
	imul	TM_EVERY(%rax), %edx
	shr	$12, %edx
	add	%r11, %rdx
	jmp	2f
1:	xor	%r9d, %r9d
	xor	%edx, %edx
2:	mov	%r9d, %fs:PT_SAMPLE(%rcx)
	mov	RW_SPAN(%r8), %r11
	cmp	%r11, %rdx
	cmova	%r11, %rdx
	mov	%rdx, RW_SPAN2(%r8)
	restore	%rdx, %rcx
	jmp	\sampled
.endm

	.text

/* Stack on entry: 0 return address in the stub, 8 word, 16 = S return address. */
	function arch_entry_brief, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %r11
	see_brief 24(%rsp), .Lentry_exact
	save	%r10, %r9, %r8
	find_frame PT_GRANULE, .Lentry_slow, .Lentry_not_below, 56, %r8, %r11, %r9, %r10
	take_half RW_SPAN2, %rax, .Lentry_moved, .Lentry_beyond
.Lentry_put:
	put_half 48(%rsp), TO_BRIEF
	lea	56(%rsp), %r11			/* S */
	mov	%r11, %r9
	flip	%r9, MIRROR_BIT, MIRROR_SKEW
	link_frame %rax, %r11, %r9, %r10
	mov	%r11, PS_TOP(%r10)
.Lentry_done:
	restore	%r8, %r9, %r10, %r11, %rax
	ret	$16

	/* The frame goes on under another name.  A brief call leaves it to the caller whether the exit has a time. */
	.cfi_adjust_cfa_offset 40
.Lentry_not_below:
	find_tail .Lentry_slow, %r8, %r11, %r9, %r10
	mov	probe_times(%rip), %rax
	take_half RW_SPAN2, %rax, .Lentry_moved, .Ltail_beyond
.Ltail_put:
	put_half 48(%rsp), TO_BRIEF_TAIL
	.cfi_remember_state
	jmp	.Lentry_done
	.cfi_restore_state
.Lentry_beyond:
	choose_sample .Lentry_put, .Lentry_sampled
.Ltail_beyond:
	choose_sample .Ltail_put, .Lentry_sampled
.Lentry_moved:
	pad_half
.Lentry_slow:
	restore	%r8, %r9, %r10, %r11, %rax
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
.Lexact_slow:
	lea	probe_brief_entry(%rip), %rax
	jmp	arch_entry_to_c

	/* The call is to have its times: it begins anew. */
	.cfi_adjust_cfa_offset -8
.Lentry_sampled:
	restore	%r8, %r9, %r10
.Lentry_exact:
	restore	%r11, %rax
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_frame PT_GRANULE, .Lexact_slow, .Lexact_not_below
	mov	%fs:PT_WRITER(%rcx), %rsi
	take_whole .Lexact_slow
	put_record 56(%rsp)
	lea	64(%rsp), %rsi			/* S */
	mov	%rsi, %rdi
	flip	%rdi, MIRROR_BIT, MIRROR_SKEW
	link_frame
	btsq	$EXACT_BIT, (%rdi)
	mov	%rsi, PS_TOP(%r8)
.Lexact_done:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16

	.cfi_adjust_cfa_offset 48
.Lexact_not_below:
	find_tail .Lexact_slow
	mov	%fs:PT_WRITER(%rcx), %rsi
	take_whole .Lexact_slow
	put_record 56(%rsp), TO_TAIL
	lea	64(%rsp), %rdi			/* S */
	btc	$MIRROR_BIT, %rdi
	flip	%rdi, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW)
	btsq	$EXACT_BIT, (%rdi)
	jmp	.Lexact_done
	function_end arch_entry_brief

/* Stack on entry: 0 = S word. */
	function arch_exit_brief, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%r11
	lea	8(%rsp), %r11			/* S */
	btc	$MIRROR_BIT, %r11
	flip	%r11, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW)
	cmpq	$0, (%r11)
	js	.Lexit_exact
	save	%r10, %r9, %r8, %rcx
	find_top .Lexit_slow, 40, %r8, %r11, %r10
	mov	probe_times(%rip), %rcx
	take_half RW_SPAN, %rcx, .Lexit_moved, .Lexit_slow
	put_half 40(%rsp), TO_BRIEF
	lea	40(%rsp), %r11
	unlink_frame 40(%rsp), %r9, %r11, %r9
	mov	%r9, PS_TOP(%r10)
	restore	%rcx, %r8, %r9, %r10, %r11
	ret

	.cfi_adjust_cfa_offset 40
.Lexit_moved:
	pad_half
.Lexit_slow:
	restore	%rcx, %r8, %r9, %r10, %r11
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
.Lexit_to_c:
	lea	probe_brief_exit(%rip), %rax
	jmp	arch_exit_to_c

	/* rdi: S, and then its places in the planes; r8: the stack. */
	.cfi_adjust_cfa_offset -40
.Lexit_exact:
	restore	%r11
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_top .Lexit_to_c
	mov	%fs:PT_WRITER(%rcx), %rsi
	take_whole .Lexit_to_c
	put_record 48(%rsp)
	lea	48(%rsp), %rdi
	unlink_frame 48(%rsp)
	btr	$EXACT_BIT, %rsi
	mov	%rsi, PS_TOP(%r8)
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret
	function_end arch_exit_brief

/*
 * Does S lie on the stack that the thread's last event was on, inside its innermost frame?  r8: the thread's block;
 * r11: S + 1, so that STACK_TO_C in the top makes no difference; r9 is changed.
 */
.macro is_inside_top slow
	mov	%fs:PT_STACK(%r8), %r9
	cmp	PS_TOP(%r9), %r11
	jae	\slow				/* a tail call, or frames are gone, or another stack */
	cmp	PS_LOW(%r9), %r11
	jb	\slow				/* another stack */
.endm

/*
 * A leaf: no frame, no mirror, no link.  Stack on entry: 0 return address in the stub, at X86_STUB_AT_LEAF_BODY;
 * 8 word, 16 = S return address.  The word stays where it is while the body runs.
 */
	function arch_entry_leaf, 6
	endbr64
	save	%rax, %r11, %r9, %r8
	see_brief 40(%rsp), .Lleaf_framed
	thread_offset %r8, %r11
	lea	49(%rsp), %r11			/* S + 1 */
	is_inside_top .Lleaf_framed
	take_half RW_SPAN2, %rax, .Lleaf_moved, .Lleaf_moved
	put_half 40(%rsp), LEAF_TO_ENTRY
	restore	%r8, %r9, %r11, %rax
	ret

	/* The half becomes a PAD, and the stub behind the leaf's unit begins anew, with the stack as its site left it. */
	.cfi_adjust_cfa_offset 32
.Lleaf_moved:
	pad_half
.Lleaf_framed:
	mov	32(%rsp), %r11
	add	$LEAF_TO_FRAMED, %r11
	mov	%r11, 40(%rsp)
	drop_shadow
	restore	%r8, %r9, %r11, %rax
	lea	16(%rsp), %rsp			/* = S */
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)			/* in the red zone: handlers keep off */
	function_end arch_entry_leaf

/* Stack on entry: 0 word, 8 = S return address. */
	function arch_exit_leaf, 6
	.cfi_def_cfa_offset 16
	endbr64
	save	%rcx, %r11, %r9, %r8
	thread_offset %r8, %r11
	lea	41(%rsp), %r11			/* S + 1 */
	is_inside_top .Lleaf_exit_slow		/* a handler may have left the thread's last event on another stack */
	mov	probe_times(%rip), %rcx
	take_half RW_SPAN, %rcx, .Lleaf_exit_moved, .Lleaf_exit_slow
	put_half 32(%rsp), LEAF_TO_EXIT
.Lleaf_exit_done:
	restore	%r8, %r9, %r11, %rcx
	lea	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret

	.cfi_adjust_cfa_offset 40
.Lleaf_exit_moved:
	pad_half
.Lleaf_exit_slow:
	save	%rax, %rdx, %rsi, %rdi, %r10
	lea	80(%rsp), %rdi			/* S */
	mov	72(%rsp), %esi			/* word */
	cld
	call	probe_leaf_exit
	restore	%r10, %rdi, %rsi, %rdx, %rax
	jmp	.Lleaf_exit_done
	function_end arch_exit_leaf

	.section .note.GNU-stack, "", @progbits
