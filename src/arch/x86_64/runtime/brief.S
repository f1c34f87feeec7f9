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
 * The writer in rcx, the seen tick in rsi, struct calltap_times in rax; to rdx: half a word.  moved: the tick is
 * another, and rdx was taken; beyond: it does not lie before \span (of RW_SPAN and RW_SPAN2).  To rsi: where it lies in the sub-buffer.
 */
.macro take_half span, moved, beyond
	mov	$4, %edx
	xadd	%rdx, RW_CURSOR(%rcx)
	cmp	TM_TICK(%rax), %rsi
	jne	\moved
	mov	%rdx, %rsi
	sub	RW_BASE(%rcx), %rsi		/* one load decides: see ring/writer.h */
	cmp	\span(%rcx), %rsi
	jae	\beyond
.endm

/*
 * Take half a word for an entry or a tail call that is to have no time, as take_half does.  exact: the call is to have
 * one; beyond: as of take_half.  rcx: the thread's block, which becomes the writer; rax and rsi are changed.
 */
.macro take_brief exact, beyond, word=56(%rsp), moved=.Lentry_moved
	mov	probe_times(%rip), %rax
	mov	\word, %edx
	cmpb	$0, (TM_BRIEF - KIND_ENTRY)(%rax, %rdx)
	je	\exact
	mov	%fs:PT_TICK(%rcx), %rsi
	mov	%fs:PT_WRITER(%rcx), %rcx
	take_half RW_SPAN2, \moved, \beyond
.endm

/* The stub's word as a brief record, in the half that was taken.  rsi is changed. */
.macro put_half word, to
	mov	\word, %esi
	add	$\to, %esi
	mov	%esi, (%rdx)
.endm

/* The half that take_half took becomes a PAD, if it lies in the sub-buffer. */
.macro pad_half
	mov	%rdx, %rsi
	sub	RW_BASE(%rcx), %rsi
	cmp	RW_SPAN(%rcx), %rsi
	jae	.Lpadded\@
	movl	$-1, (%rdx)
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
 * else at exact.  What take_half has left; rdi is changed, and at exact rcx is the thread's block again.
 *
 * A random number of 32 bits: the upper 3 are how many entries the next one counts down, the 16 below say from where
 * on, which is 8 * TM_EVERY bytes away on average, or at the sub-buffer's end.  After one in four it is the very next
 * entry: so readers know how long callers take between two calls.
 */
.macro choose_sample put, exact
	cmp	RW_SPAN(%rcx), %rsi
	jae	.Lentry_slow			/* no room */
	save	%r9
	thread_offset %r9, %rdi
	decl	%fs:PT_SAMPLE(%r9)
	js	.Lsampled\@
	.cfi_remember_state
	restore	%r9
	jmp	\put
	.cfi_restore_state
.Lsampled\@:
	movl	$-1, (%rdx)
	imul	$RANDOM_BY, %fs:PT_SEED(%r9), %edx
	add	$RANDOM_MORE, %edx
	mov	%edx, %fs:PT_SEED(%r9)
	mov	%edx, %edi
	shr	$29, %edi
	shr	$13, %edx
	test	$IN_A_ROW, %edx
	jz	1f				/* the very next entry */
	movzwl	%dx, %edx
	imul	TM_EVERY(%rax), %edx
	shr	$12, %edx
	add	%rsi, %rdx
	jmp	2f
1:	xor	%edi, %edi
	xor	%edx, %edx
2:	mov	%edi, %fs:PT_SAMPLE(%r9)
	mov	RW_SPAN(%rcx), %rsi
	cmp	%rsi, %rdx
	cmova	%rsi, %rdx
	mov	%rdx, RW_SPAN2(%rcx)
	mov	%r9, %rcx
	restore	%r9
	jmp	\exact
.endm

	.text

/* Stack on entry: 0 return address in the stub, 8 word, 16 = S return address. */
	function arch_entry_brief, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_frame PT_GRANULE, .Lentry_slow, .Lentry_not_below
	take_brief .Lentry_exact, .Lentry_beyond
.Lentry_put:
	put_half 56(%rsp), TO_BRIEF
	lea	64(%rsp), %rsi			/* S */
	link_frame
	mov	%rsi, PS_TOP(%r8)
.Lentry_done:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16

	.cfi_adjust_cfa_offset 48
.Lentry_beyond:
	choose_sample .Lentry_put_again, .Lentry_exact
.Lentry_put_again:
	lea	64(%rsp), %rdi
	flip	%rdi, MIRROR_BIT, MIRROR_SKEW
	jmp	.Lentry_put
.Lentry_exact:
	mov	%fs:PT_WRITER(%rcx), %rsi
	take_whole .Lentry_slow
	put_record 56(%rsp)
	lea	64(%rsp), %rsi			/* S */
	mov	%rsi, %rdi
	flip	%rdi, MIRROR_BIT, MIRROR_SKEW
	link_frame
	btsq	$EXACT_BIT, (%rdi)
	mov	%rsi, PS_TOP(%r8)
	jmp	.Lentry_done

	/* The frame goes on under another name.  A brief call leaves it to the caller whether the exit has a time. */
.Lentry_not_below:
	find_tail .Lentry_slow
	take_brief .Ltail_exact, .Ltail_beyond
.Ltail_put:
	put_half 56(%rsp), TO_BRIEF_TAIL
	jmp	.Lentry_done
.Ltail_beyond:
	choose_sample .Ltail_put, .Ltail_exact
.Ltail_exact:
	mov	%fs:PT_WRITER(%rcx), %rsi
	take_whole .Lentry_slow
	put_record 56(%rsp), TO_TAIL
	lea	64(%rsp), %rdi			/* S */
	btc	$MIRROR_BIT, %rdi
	flip	%rdi, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW)
	btsq	$EXACT_BIT, (%rdi)
	jmp	.Lentry_done

.Lentry_moved:
	pad_half
.Lentry_slow:
	lea	probe_brief_entry(%rip), %rax
	jmp	arch_entry_to_c
	function_end arch_entry_brief

/*
 * Stack on entry: 0 = S word.
 *
 * rdi: S, and then what its link says; r8: the stack.
 */
	function arch_exit_brief, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	thread_offset %rcx, %rsi
	lea	48(%rsp), %rdi			/* S */
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rdi, PS_TOP(%r8)
	jne	.Lexit_slow			/* inner frames are gone, or another stack */
	btc	$MIRROR_BIT, %rdi
	flip	%rdi, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW)
	mov	(%rdi), %rdi
	test	%rdi, %rdi
	js	.Lexit_exact
	mov	probe_times(%rip), %rax
	mov	%fs:PT_TICK(%rcx), %rsi
	mov	%fs:PT_WRITER(%rcx), %rcx
	take_half RW_SPAN, .Lexit_moved, .Lexit_slow
	put_half 48(%rsp), TO_BRIEF
	lea	48(%rsp), %rsi			/* as unlink_frame */
	flip	%rsi, MIRROR_BIT, MIRROR_SKEW
	mov	(%rsi), %rax
	mov	%rax, 48(%rsp)
	movq	$0, (%rsi)
	mov	%rdi, PS_TOP(%r8)
.Lexit_done:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret

	.cfi_adjust_cfa_offset 48
.Lexit_exact:
	mov	%fs:PT_WRITER(%rcx), %rsi
	take_whole .Lexit_slow
	put_record 48(%rsp)
	lea	48(%rsp), %rdi
	unlink_frame 48(%rsp)
	btr	$EXACT_BIT, %rsi
	mov	%rsi, PS_TOP(%r8)
	jmp	.Lexit_done

.Lexit_moved:
	pad_half
.Lexit_slow:
	lea	probe_brief_exit(%rip), %rax
	jmp	arch_exit_to_c
	function_end arch_exit_brief

/*
 * Does S lie on the stack that the thread's last event was on, inside its innermost frame?  rsi: S + 1, so that
 * STACK_TO_C in the top makes no difference; rdx is changed.
 */
.macro is_inside_top slow
	mov	%fs:PT_STACK(%rcx), %rdx
	cmp	PS_TOP(%rdx), %rsi
	jae	\slow				/* a tail call, or frames are gone, or another stack */
	cmp	PS_LOW(%rdx), %rsi
	jb	\slow				/* another stack */
.endm

/*
 * A leaf: no frame, no mirror, no link.  Stack on entry: 0 return address in the stub, at X86_STUB_AT_LEAF_BODY;
 * 8 word, 16 = S return address.  The word stays where it is while the body runs.
 */
	function arch_entry_leaf, 6
	endbr64
	save	%rax, %rdx, %rcx, %rsi
	thread_offset %rcx, %rsi
	lea	49(%rsp), %rsi			/* S + 1 */
	is_inside_top .Lleaf_framed
	take_brief .Lleaf_framed, .Lleaf_beyond, 40(%rsp), .Lleaf_moved
	put_half 40(%rsp), LEAF_TO_ENTRY
	restore	%rsi, %rcx, %rdx, %rax
	ret

	/* The half becomes a PAD, and the stub behind the leaf's unit begins anew, with the stack as its site left it. */
	.cfi_adjust_cfa_offset 32
.Lleaf_beyond:
.Lleaf_moved:
	pad_half
.Lleaf_framed:
	mov	32(%rsp), %rax
	add	$LEAF_TO_FRAMED, %rax
	mov	%rax, 40(%rsp)
	drop_shadow
	restore	%rsi, %rcx, %rdx, %rax
	lea	16(%rsp), %rsp			/* = S */
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)			/* in the red zone: handlers keep off */
	function_end arch_entry_leaf

/* Stack on entry: 0 word, 8 = S return address. */
	function arch_exit_leaf, 6
	.cfi_def_cfa_offset 16
	endbr64
	save	%rax, %rdx, %rcx, %rsi
	thread_offset %rcx, %rsi
	lea	41(%rsp), %rsi			/* S + 1 */
	is_inside_top .Lleaf_exit_slow		/* a handler may have left the thread's last event on another stack */
	mov	probe_times(%rip), %rax
	mov	%fs:PT_TICK(%rcx), %rsi
	mov	%fs:PT_WRITER(%rcx), %rcx
	take_half RW_SPAN, .Lleaf_exit_moved, .Lleaf_exit_slow
	put_half 32(%rsp), LEAF_TO_EXIT
.Lleaf_exit_done:
	restore	%rsi, %rcx, %rdx, %rax
	lea	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret

	.cfi_adjust_cfa_offset 40
.Lleaf_exit_moved:
	pad_half
.Lleaf_exit_slow:
	save	%rdi, %r8, %r9, %r10, %r11
	lea	80(%rsp), %rdi			/* S */
	mov	72(%rsp), %esi			/* word */
	cld
	call	probe_leaf_exit
	restore	%r11, %r10, %r9, %r8, %rdi
	jmp	.Lleaf_exit_done
	function_end arch_exit_leaf

	.section .note.GNU-stack, "", @progbits
