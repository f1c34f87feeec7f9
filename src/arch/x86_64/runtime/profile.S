/*
 * The recorders of timed frames, x86-64: tracer profile, and functions with
 * triggers.  How stubs call them, and what they may touch: entry.S.
 *
 * A timed frame at S has the time of its entry at arch_entered(S), and at
 * arch_within(S) the ticks that its traced callees took.  A profile's exit adds
 * to the thread's table (probe/profile.h, calltap/abi/profile.h) by one
 * instruction a word, so that a signal handler's calls are not lost.
 *
 * As in entry.S, the fast recorders do the common case, and nothing was changed
 * when they go to C, but the ring's cursor.
 */
#include "offsets.h"
#include "recorder.inc"

#define ID_MASK ((1 << ID_BITS) - 1)

/*
 * Stack on entry: 0 return address in the stub, 8 word, 16 = S return address.
 * rsi: S; rdi: its place in a plane; r8: the stack; rdx: the table; rcx: the function's entry in it.
 */
	function arch_entry_profile, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_frame PT_TIMED, .Lentry_slow, .Lentry_slow
	mov	%fs:PT_TABLE(%rcx), %rdx
	mov	$ID_MASK, %ecx
	and	56(%rsp), %ecx
	shl	$PE_BITS, %rcx
	add	TB_ENTRIES(%rdx), %rcx
	cmp	TB_END(%rdx), %rcx		/* last, for a fork in a handler clears both */
	jae	.Lentry_slow
	cmpq	$0, PE_OUTER(%rcx)
	jne	.Lentry_again
.Lentry_known:
	link_frame
	flip	%rdi, ENTERED_BIT, ENTERED_SKEW
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	mov	%rax, (%rdi)
	flip	%rdi, WITHIN_BIT, WITHIN_SKEW
	movq	$0, (%rdi)
	cmpq	$0, PE_OUTER(%rcx)
	jne	1f
	mov	%rax, PE_SINCE(%rcx)
	mov	%rsi, PE_OUTER(%rcx)
1:	mov	%rsi, PS_TOP(%r8)
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16

	.cfi_adjust_cfa_offset 48
.Lentry_again:
	look_at_outermost %rax, .Lentry_slow
	je	.Lentry_known
.Lentry_slow:
	lea	probe_graph_entry(%rip), %rax
	jmp	arch_entry_to_c
	function_end arch_entry_profile

/*
 * Stack on entry: 0 = S word.
 *
 * rdi: S, or its place in a plane, and for a while the table; r8: the stack; rax: the call's ticks; r9: the ticks less
 * the callees'; rsi: the function's entry in the table; rdx: its bucket's address.
 */
	function arch_exit_profile, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8, %r9
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	thread_offset %rcx, %rsi
	lea	56(%rsp), %rdi
	mov	%rdi, %rsi
	shr	$GRANULE_BITS, %rsi
	cmp	%rsi, %fs:PT_TIMED(%rcx)
	jne	.Lexit_slow
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rdi, PS_TOP(%r8)
	jne	.Lexit_slow			/* inner frames are gone, or another stack */
	mov	%fs:PT_TABLE(%rcx), %rdx
	mov	TB_ENTRIES(%rdx), %rcx
	mov	$ID_MASK, %r9d
	and	56(%rsp), %r9d
	mov	%r9, %rsi
	shl	$PE_BITS, %rsi
	add	%rcx, %rsi
	cmp	TB_END(%rdx), %rsi		/* behind the first entry's load, as above */
	jae	.Lexit_slow
	inc	%r9d
	cmp	%r9d, RING_WATCH - PP_BYTES(%rcx)
	je	.Lexit_slow			/* the function's callers are counted */
	mov	PP_PENDING - PP_BYTES(%rcx), %r9
	sub	TB_FIRST(%rdx), %r9
	cmp	TB_SPAN(%rdx), %r9
	jae	.Lexit_slow			/* no call was counted before */
	cmpq	$0, PE_HISTOGRAM(%rsi)
	je	.Lexit_slow
	flip	%rdi, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW ^ ENTERED_SKEW)
	mov	(%rdi), %rcx
	cmp	TB_CLAIMED(%rdx), %rcx
	jb	.Lexit_slow			/* entered before a fork */
	sub	%rcx, %rax
	jb	.Lexit_slow
	flip	%rdi, WITHIN_BIT, WITHIN_SKEW
	mov	%rax, %r9
	sub	(%rdi), %r9
	jb	.Lexit_slow
	mov	TB_DATA(%rdx), %rdi
	test	%rdi, %rdi
	jz	.Lexit_slow			/* a fork */
	bsr	%rax, %rcx
	jz	.Lexit_slow
	sub	$2, %ecx
	cmp	$(LONGEST_BITS - 2), %ecx
	ja	.Lexit_slow
	mov	%rax, %rdx			/* bucket 4 * (e - 1) + q: see calltap_profile_bucket() */
	shr	%cl, %rdx
	lea	(%rdx, %rcx, 4), %rdx
	shl	$3, %rdx
	add	PE_HISTOGRAM(%rsi), %rdx
	mov	PP_PENDING(%rdi), %rcx		/* the last call's bucket: see count_bucket() */
	incq	(%rdi, %rcx)
	mov	%rdx, PP_PENDING(%rdi)
	incq	PE_CALLS(%rsi)
	add	%r9, PE_SELF(%rsi)
	cmp	%rax, PE_MAX(%rsi)
	jae	1f
	mov	%rax, PE_MAX(%rsi)
1:	lea	56(%rsp), %rdi
	cmp	%rdi, PE_OUTER(%rsi)
	jne	1f				/* the inner call of a recursion */
	movq	$0, PE_OUTER(%rsi)
	add	%rax, PE_TOTAL(%rsi)
1:	unlink_frame 56(%rsp), %rcx
	cmp	PS_REST(%r8), %rsi
	jae	1f				/* there is no outer frame */
	mov	%rsi, %rdi
	btc	$LINK_BIT, %rdi
	flip	%rdi, WITHIN_BIT, (MIRROR_SKEW ^ LINK_SKEW ^ ENTERED_SKEW ^ WITHIN_SKEW)
	add	%rax, (%rdi)
1:	mov	%rsi, PS_TOP(%r8)
	restore	%r9, %r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret

	.cfi_adjust_cfa_offset 56
.Lexit_slow:
	lea	probe_graph_exit(%rip), %rax
	restore	%r9
	jmp	arch_exit_to_c
	function_end arch_exit_profile

/* Entry of function_graph that notes the time beside the frame. */
	function arch_entry_timed, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_frame PT_TIMED, .Ltimed_slow, .Ltimed_slow
	mov	%fs:PT_WRITER(%rcx), %rsi
	rdtsc
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Ltimed_slow
	shl	$32, %rdx
	or	%rax, %rdx
	mov	$8, %ecx
	xadd	%rcx, RW_CURSOR(%rsi)
	mov	%rcx, %rax
	sub	RW_BASE(%rsi), %rax
	cmp	RW_SPAN(%rsi), %rax
	jae	.Ltimed_slow
	mov	56(%rsp), %esi
	shl	$32, %rsi
	mov	%edx, %eax
	or	%rax, %rsi
	mov	%rsi, (%rcx)			/* the record */
	lea	64(%rsp), %rsi
	link_frame
	flip	%rdi, ENTERED_BIT, ENTERED_SKEW
	mov	%rdx, (%rdi)
	mov	%rsi, PS_TOP(%r8)
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16

	.cfi_adjust_cfa_offset 48
.Ltimed_slow:
	lea	probe_graph_entry(%rip), %rax
	jmp	arch_entry_to_c
	function_end arch_entry_timed

/* Exit of function_graph; C takes calls that took longer than the function's limit. 0 = no limit. */
	function arch_exit_trigger, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	rdtsc
	thread_offset %rcx, %rsi
	lea	48(%rsp), %rdi			/* S */
	mov	%rdi, %rsi
	shr	$GRANULE_BITS, %rsi
	cmp	%rsi, %fs:PT_TIMED(%rcx)
	jne	.Ltrigger_slow
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rdi, PS_TOP(%r8)
	jne	.Ltrigger_slow
	mov	%fs:PT_WRITER(%rcx), %rsi
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Ltrigger_slow
	shl	$32, %rdx
	or	%rax, %rdx
	flip	%rdi, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW ^ ENTERED_SKEW)
	sub	(%rdi), %rdx
	mov	$ID_MASK, %edi
	and	48(%rsp), %edi
	mov	probe_triggers(%rip), %rcx
	cmp	TR_FUNCTIONS(%rcx), %edi
	jae	1f
	shl	$LIMIT_BITS, %rdi
	mov	TR_LIMITS + LIMIT_TICKS(%rcx, %rdi), %rcx
	dec	%rcx
	dec	%rdx
	cmp	%rdx, %rcx
	jb	.Ltrigger_slow			/* too long */
1:	take_slot .Ltrigger_slow
	put_record 48(%rsp)
	lea	48(%rsp), %rdi
	unlink_frame 48(%rsp)
	mov	%rsi, PS_TOP(%r8)
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret

	.cfi_adjust_cfa_offset 48
.Ltrigger_slow:
	lea	probe_trigger_exit(%rip), %rax
	jmp	arch_exit_to_c
	function_end arch_exit_trigger

	function arch_exit_trigger_full, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	lea	probe_trigger_exit_full(%rip), %rax
	jmp	arch_exit_to_c
	function_end arch_exit_trigger_full

	.section .note.GNU-stack, "", @progbits
