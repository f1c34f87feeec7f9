/*
 * The dispatcher: recorders of functions that handlers of the program's own are
 * called at, x86-64.  How stubs call them, and what they may touch: entry.S.
 *
 * All general registers are put on the stack, struct calltap_registers, for
 * the handlers to see; those that functions keep by themselves are not read
 * back, but where a handler has faulted.  In front of them lies the rest of
 * struct probe_handled, at rbx from then on, so that the stack can be aligned.
 *
 * As in entry.S, the fast path does the common case: one handler, which uses
 * general registers alone, and a session that does not record the function.
 * All else, and what it finds on its way, goes to C (probe/handlers.c), which
 * starts anew.  doc/design/handlers.md has the argument.
 */
#include "offsets.h"
#include "recorder.inc"

#define ID_MASK	  0x0fffffff
#define ENTRY_S	  (H_END + 16)			/* S, and what the stub has pushed, from rbx at the entry */
#define ENTRY_RET H_END
#define ENTRY_WORD (H_END + 8)
#define ENTRY_CFA (ENTRY_S + 8)
#define EXIT_S	  H_END				/* the word, and S */
#define EXIT_CFA  (EXIT_S + 8)
#define SHARED_RET  72				/* from rsp, after keep_caller_saved; at the exit S and the word */
#define SHARED_WORD (SHARED_RET + 8)
#define SHARED_S    (SHARED_RET + 16)
#define POPPED	  (H_END - H_RBX)		/* rbx and what was pushed before it */
#define UNRECORDED 1				/* FRAME_UNRECORDED */
#define LINK_FLAGS 6				/* FRAME_CAME, FRAME_COUNTED */

/*
 * Each plane by its distance from S (arch.h), and not from another plane's word: so the loads need not wait for each
 * other.
 */
#define MIRROR_MASK  ((1 << MIRROR_BIT) ^ MIRROR_SKEW)
#define LINK_MASK    (MIRROR_MASK ^ (1 << LINK_BIT) ^ LINK_SKEW)
#define WITHIN_MASK  (LINK_MASK ^ (1 << ENTERED_BIT) ^ ENTERED_SKEW ^ (1 << WITHIN_BIT) ^ WITHIN_SKEW)
#define ENTERED_MASK (LINK_MASK ^ (1 << ENTERED_BIT) ^ ENTERED_SKEW)
#define WHO_MASK     (WITHIN_MASK ^ (1 << WHO_BIT) ^ WHO_SKEW)
#define DATA_MASK    (WHO_MASK ^ (1 << DATA_BIT) ^ DATA_SKEW)

/* To reg: where S, in rsi, has its word in a plane. */
.macro place reg, mask
	mov	$\mask, \reg
	xor	%rsi, \reg
.endm

/* The registers that C may change: the first part of keep_registers. */
.macro keep_caller_saved
	endbr64
	save	%rdi, %rsi, %rdx, %rcx, %rax, %r8, %r9, %r10, %r11
.endm

.macro give_back_caller_saved
	restore	%r11, %r10, %r9, %r8, %rax, %rcx, %rdx, %rsi, %rdi
.endm

/* rbx: struct probe_handled, its registers filled in. */
.macro keep_callee_saved cfa
	save	%rbx
	.cfi_rel_offset %rbx, 0
	save	%rbp
	.cfi_rel_offset %rbp, 0
	save	%r12, %r13, %r14, %r15
	lea	-H_KEPT(%rsp), %rbx
	.cfi_def_cfa %rbx, \cfa
.endm

/* Back to where the stub's words are, with all registers as they were. */
.macro give_back cfa
	lea	H_RBX(%rbx), %rsp
	.cfi_def_cfa %rsp, \cfa - H_RBX
	restore	%rbx
	.cfi_restore %rbx
	give_back_caller_saved
.endm

/*
 * r9: the function's id, rcx: the thread's block.  Marks the thread as running
 * handlers, if it has a ring and runs none; r10: the table.
 */
.macro begin slow
	mark_running \slow
	find_table \slow			/* after the mark: a control thread that has not seen it has changed the table */
.endm

/* r9: the function's id; r10: the table, which has a row for it. */
.macro find_table slow
	mov	probe_handled(%rip), %r10
	cmp	HT_FUNCTIONS(%r10), %r9
	jae	\slow
.endm

/* Goes to \slow where the thread has no ring, or runs handlers. */
.macro expect_idle slow
	mov	%fs:PT_WRITER(%rcx), %rax
	cmpq	$0, RW_RING(%rax)
	je	\slow				/* none yet, or the child of a fork */
	cmpq	$0, %fs:PT_RUNNING(%rcx)
	jne	\slow
.endm

/* rsi: S.  rcx: the thread's block.  Goes to \slow where S lacks its planes, or has a mirror word. */
.macro expect_new_frame slow
	thread_offset %rcx, %rdi
	mov	%rsi, %rdi
	shr	$GRANULE_BITS, %rdi
	cmp	%rdi, %fs:PT_HANDLED(%rcx)
	jne	\slow
	place	%rdi, MIRROR_MASK
	cmpq	$0, (%rdi)
	jne	\slow				/* a tail call, or a stale frame */
.endm

.macro mark_running slow
	expect_idle \slow
	incq	%fs:PT_RUNS(%rcx)
	mov	%rbx, %fs:PT_RUNNING(%rcx)	/* from here on, a control thread that waits knows of this one */
.endm

.macro end
	thread_offset %rcx, %r8
	movq	$0, %fs:PT_RUNNING(%rcx)
.endm

/*
 * edx: CALLTAP_HANDLED_*, a handler's among them; rdi: the library's table.  Puts the handler's slot into rdi; goes to
 * \slow where there are several, or the session's tracer wants the call.
 */
.macro the_slot slow
	lea	-1(%rdx), %eax
	test	%eax, %edx
	jne	\slow				/* several handlers, or the session's tracer */
	rep bsf	%edx, %eax			/* tzcnt where there is one: the same, and faster */
	lea	(%rax, %rax, 8), %rax
	lea	HG_SLOTS - HW_FIRST * HS_SIZE(%rdi, %rax, 8), %rdi
	testb	$HS_GENERAL, HS_FLAGS(%rdi)
	jz	\slow
.endm

/* Put the slot's entry handler into r11, where the function's row was; with flags, zero = none. rdx: the function. */
.macro the_entry
	mov	HT_BODIES(%r10), %rdx
	shr	$32, %r11
	movzwl	%r11w, %r11d
	mov	(%rdx, %r9, 8), %rdx
	sub	%r11, %rdx
	mov	HS_ENTRY(%rdi), %r11
	test	%r11, %r11
.endm

/* rsi: S, whose frame is the stack's (r8) innermost; rbp: its link.  As in arch_exit_fast.  To rcx: the caller. */
.macro pop_frame
	place	%rax, MIRROR_MASK
	mov	(%rax), %rcx
	mov	%rcx, (%rsi)
	movq	$0, (%rax)
	and	$~(UNRECORDED | LINK_FLAGS), %rbp
	mov	%rbp, PS_TOP(%r8)		/* slot of the next outer frame */
.endm

/* rdi: the slot; r11: its handler; rdx: the traced function; r9: its id, and flags; rcx: its caller; rsi: S. */
.macro call_handler how
	lea	\how + SLOT_FAST(%rdi), %rax
	mov	%rax, H_SLOT(%rbx)
	mov	%rdx, H_FUNCTION(%rbx)
	mov	%rcx, H_CALLER(%rbx)
	mov	%rsi, H_STACK(%rbx)
	mov	%r9, H_ID(%rbx)
	movq	$0, H_VECTORS(%rbx)
	mov	HS_CONTEXT(%rdi), %rsi
	lea	H_FUNCTION(%rbx), %rdi		/* struct calltap_call */
	mov	%rbx, %rsp
	and	$-16, %rsp
	cld
	call	*%r11
.endm

/*
 * esi: how.  In C, with the vector registers kept if a handler may touch them.
 * A thread whose handler has faulted goes on at `again`, with rbx and rsp set.
 */
.macro in_c begin, again, end
	mov	%rbx, %rsp
	and	$-64, %rsp
	mov	%rbx, %rdi
	cld
	call	\begin
	test	%rax, %rax
	jz	1f
	sub	%rax, %rsp
	and	$-64, %rsp
	mov	%rsp, H_AREA(%rbx)
	mov	%rsp, %rdi
	mov	probe_handled(%rip), %rax
	call	*HT_SAVE(%rax)
1:
	.globl	\again
	.hidden	\again
\again:
	mov	%rbx, %rdi
	call	probe_handled_run
	testl	$HOW_VECTORS, H_HOW(%rbx)
	jz	2f
	mov	H_AREA(%rbx), %rdi
	mov	probe_handled(%rip), %rax
	call	*HT_RESTORE(%rax)
2:	mov	%rbx, %rdi
	call	\end
.endm

.macro recorder name
	function \name, 6
	.cfi_personality 0x1b, probe_handled_unwound	/* relative to itself, 4 bytes */
.endm

	.text

/*
 * Entry of a call that no exit handler waits for.
 *
 * Stack on entry: 0 return address in the stub, 8 word, 16 = S return address.
 */
	recorder arch_call_handled
	.cfi_def_cfa_offset 24
	keep_caller_saved
	keep_callee_saved ENTRY_CFA
	mov	$ID_MASK, %r9d
	and	ENTRY_WORD(%rbx), %r9d
	thread_offset %rcx, %rdi
	begin	.Lcall_slow
	mov	HT_ROWS(%r10), %rax
	mov	(%rax, %r9, 8), %r11		/* who, start, instances */
	test	$(HW_INSTANCES | HW_CALL), %r11b
	jnz	.Lcall_slow
	mov	%r11d, %edx
	and	$~HW_SESSION, %edx		/* nobody else records it: who waits for no exit does not */
	jz	.Lcall_end
	mov	HT_HANDLERS(%r10), %rdi
	the_slot .Lcall_slow
	the_entry
	jz	.Lcall_end
	lea	ENTRY_S(%rbx), %rsi
	mov	(%rsi), %rcx
	movq	$0, H_DATA(%rbx)
	call_handler HOW_CALL
.Lcall_end:
	end
.Lcall_done:
	.cfi_remember_state
	give_back ENTRY_CFA
	ret	$8				/* rsp = S; the stub jumps to the body */

	.cfi_restore_state
.Lcall_slow:
	mov	$HOW_CALL, %esi
	jmp	.Lentry_in_c
	function_end arch_call_handled

/* Stack on entry: 0 return address in the stub, 8 word, 16 = S return address. */
	recorder arch_entry_handled
	.cfi_def_cfa_offset 24
	keep_caller_saved
	mov	$ID_MASK, %r9d
	and	SHARED_WORD(%rsp), %r9d
	find_table .Lentry_unknown
	mov	HT_ROWS(%r10), %rax
	mov	(%rax, %r9, 8), %r11		/* who, start, instances */
	cmp	$(HW_RECORD | HW_VALUES), %r11d
	je	.Lentry_valued
	test	$~(HW_INSTANCES | HW_RECORD | HW_VALUES), %r11d
	jnz	.Lentry_handled
	test	%r11d, %r11d
	jnz	.Lentry_shared
.Lentry_handled:
	.cfi_remember_state
	keep_callee_saved ENTRY_CFA
	lea	ENTRY_S(%rbx), %rsi
	expect_new_frame .Lentry_slow
	begin	.Lentry_slow
	mov	HT_ROWS(%r10), %rax
	mov	(%rax, %r9, 8), %r11		/* once more: what it said before the mark may be gone */
	mov	%r11d, %edx
	mov	HT_HANDLERS(%r10), %rdi
	mov	HG_GENERATION(%rdi), %r8d
	place	%rax, WHO_MASK		/* of no meaning until the frame is pushed */
	mov	%edx, (%rax)
	mov	%r8d, 4(%rax)
	cmp	$HW_SESSION, %edx
	jbe	.Lentry_nobody
	the_slot .Lentry_slow
	mov	HS_FLAGS(%rdi), %ebp
	the_entry
	jz	.Lentry_unseen
	mov	(%rsi), %rcx
	movq	$0, H_DATA(%rbx)
	call_handler HOW_ENTRY
	test	%eax, %eax
	jnz	.Lentry_unwanted
.Lentry_push:
	lea	ENTRY_S(%rbx), %rsi
	thread_offset %rcx, %r8
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	PS_TOP(%r8), %rsi
	jae	.Lentry_late			/* frames are gone, or another stack */
	cmp	PS_LOW(%r8), %rsi
	jb	.Lentry_late
	place	%rdi, MIRROR_MASK
	mov	(%rsi), %rax
	mov	%rax, (%rdi)
	place	%rdi, LINK_MASK
	mov	PS_TOP(%r8), %rax
	or	$UNRECORDED, %rax
	mov	%rax, (%rdi)
	test	$HS_DATA, %bpl
	jnz	.Lentry_data
.Lentry_top:
	mov	%rsi, PS_TOP(%r8)
	movq	$0, %fs:PT_RUNNING(%rcx)
.Lentry_done:
	.cfi_remember_state
	mov	H_RBP(%rbx), %rbp
	give_back ENTRY_CFA
	ret	$16				/* rsp = S + 8: the slot is free for the body's call */

	.cfi_restore_state
	.cfi_remember_state
.Lentry_data:
	place	%rdi, DATA_MASK
	mov	H_DATA(%rbx), %rax
	mov	%rax, (%rdi)
	jmp	.Lentry_top
.Lentry_nobody:
	test	%edx, %edx
	jnz	.Lentry_slow			/* the session or instances, but no usual call */
	xor	%ebp, %ebp
	jmp	.Lentry_push
.Lentry_unseen:
	movq	$0, H_DATA(%rbx)
	jmp	.Lentry_push
.Lentry_unwanted:
	lea	ENTRY_S(%rbx), %rsi
	place	%rdi, WHO_MASK
	movl	$0, (%rdi)			/* no exit */
	jmp	.Lentry_push
.Lentry_late:
	place	%rdi, WHO_MASK
	mov	(%rdi), %rax
	mov	%rax, H_WHO(%rbx)
	movl	$HOW_ENTRY, H_HOW(%rbx)
	movq	$0, H_SLOT(%rbx)
	mov	%rbx, %rdi
	cld
	mov	%rbx, %rsp
	and	$-16, %rsp
	call	probe_handled_entered
	jmp	.Lentry_ended
.Lentry_slow:
	mov	$HOW_ENTRY, %esi
.Lentry_in_c:
	in_c	probe_handled_enter, arch_handled_again_entry, probe_handled_entered
.Lentry_ended:
	testl	$HOW_ENTRY, H_HOW(%rbx)
	jz	.Lcall_done
	test	%eax, %eax
	jz	.Lentry_done
.Lentry_untraced:
	/*
	 * The return does not come by the dispatcher: go to the body with the return address still in S, as entry.S
	 * does.
	 */
	leave_stub ENTRY_RET, %rbx
	mov	H_RBP(%rbx), %rbp
	give_back ENTRY_CFA
	lea	16(%rsp), %rsp			/* = S */
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)

	/*
	 * Records alone, of instances and of the session, perhaps with values, and no handlers.  Where this is no usual call, the dispatcher
	 * keeps the other registers, too, and C begins with the long way.
	 */
	.cfi_restore_state
	.cfi_restore_state
	.cfi_remember_state
.Lentry_shared:
	lea	SHARED_S(%rsp), %rsi
	expect_new_frame .Lentry_handled
	expect_idle .Lentry_handled
	mov	%rsi, %rdi
	mov	%rsi, %rcx			/* the return address is in S itself */
	mov	%r9d, %esi
	mov	%r11, %rdx
	test	$HW_VALUES, %dl
	jnz	.Lentry_handled			/* values, and instances */
	test	$HW_RECORD, %dl
	jnz	.Lentry_both
	call	probe_instances_entered		/* needs no aligned stack, and sees to the direction flag */
	test	%eax, %eax
	jnz	.Lentry_unshared
.Lentry_shared_done:
	.cfi_remember_state
	give_back_caller_saved
	ret	$16

	/*
	 * Of the session alone, with values.  The usual call whose program is plain (abi/program.h) is done here; all others
	 * are left to C, which starts anew.  The program is called last: it writes the EVENT behind the ENTRY.
	 */
	.cfi_restore_state
.Lentry_valued:
	lea	SHARED_S(%rsp), %rsi
	expect_new_frame .Lentry_handled
	expect_idle .Lentry_handled
	mov	probe_programs(%rip), %r8
	test	%r8, %r8
	jz	.Lvalued_in_c
	mov	PG_ROWS(%r8), %rdx
	movzwl	(%rdx, %r9, 8), %r11d		/* number of the call's program, 0 = none, which is not plain */
	shl	$PR_BITS, %r11d
	add	PG_LIST(%r8), %r11
	testb	$PR_PLAIN, PR_FLAGS(%r11)
	jz	.Lvalued_in_c
	cmpl	$PR_CODE_MAX, (%r11)
	jae	.Lvalued_in_c
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	PS_TOP(%r8), %rsi
	jae	.Lvalued_in_c			/* frames are gone, or another stack */
	cmp	PS_LOW(%r8), %rsi
	jb	.Lvalued_in_c
	testb	$PS_SIGNAL, PS_KIND(%r8)
	jnz	.Lvalued_in_c
	cmp	%fs:PT_GATE(%rcx), %rsi
	jbe	.Lvalued_in_c			/* within a call that is hidden, or was */
	cmp	%fs:PT_TREE_GATE(%rcx), %rsi
	je	.Lvalued_in_c
	cmp	%fs:PT_ROOT_GATE(%rcx), %rsi
	je	.Lvalued_in_c
	cmpl	$0, PC_TREE_FILTER + probe_context(%rip)
	jne	.Lvalued_in_c
	cmpl	$0, PC_ENABLED + probe_context(%rip)
	je	.Lvalued_in_c
	cmpl	$0, PC_TIMED + probe_context(%rip)
	jne	.Lvalued_timed
.Lvalued_usual:
	movzbl	PR_WORDS(%r11), %edi
	lea	16(, %rdi, 8), %edi		/* bytes of both records */
	rdtsc
	mov	%fs:PT_WRITER(%rcx), %r8
	cmp	%edx, RW_TIME_HI(%r8)
	jne	.Lvalued_in_c
	mov	%eax, %edx			/* the time's lower half */
.Lvalued_take:					/* as ring_take(), without brief records */
	mov	RW_CURSOR(%r8), %rax
	test	$4, %al
	jnz	.Lvalued_in_c			/* behind a brief record */
	mov	%rax, %rcx
	sub	RW_BASE(%r8), %rcx
	mov	RW_SPAN(%r8), %r10
	sub	%rdi, %r10
	jb	.Lvalued_in_c
	cmp	%r10, %rcx
	ja	.Lvalued_in_c
	lea	(%rax, %rdi), %rcx
	cmpxchg	%rcx, RW_CURSOR(%r8)
	jne	.Lvalued_take			/* a handler has taken it */
	mov	%r9, %rcx
	shl	$32, %rcx
	or	%rdx, %rcx
	bts	$RECORD_ENTRY, %rcx
	mov	%rcx, (%rax)
	thread_offset %rcx, %r10
	mov	%rsi, %rdi
	shr	$GRANULE_BITS, %rdi
	cmp	%rdi, %fs:PT_TIMED(%rcx)
	jne	1f				/* the frame has no times */
	mov	RW_TIME_HI(%r8), %r10d
	shl	$32, %r10
	or	%rdx, %r10
	place	%rdi, WITHIN_MASK
	movq	$0, (%rdi)
	place	%rdi, ENTERED_MASK
	mov	%r10, (%rdi)
1:	mov	%fs:PT_STACK(%rcx), %rcx
	place	%rdi, LINK_MASK
	mov	PS_TOP(%rcx), %r10
	mov	%r10, (%rdi)
	mov	probe_programs(%rip), %r8
	mov	PG_ROWS(%r8), %rdi
	cmpw	$1, PR_EXIT(%rdi, %r9, 8)	/* carry: the return has no program */
	sbb	%r10d, %r10d
	and	$-HW_VALUES, %r10d
	add	$(HW_RECORD | HW_VALUES), %r10d
	place	%rdi, WHO_MASK
	mov	%r10, (%rdi)
	mov	(%rsi), %r10
	place	%rdi, MIRROR_MASK
	mov	%r10, (%rdi)
	mov	%rsi, PS_TOP(%rcx)
	mov	PR_HEAD(%r11), %ecx
	shl	$32, %rcx
	or	%rdx, %rcx
	mov	%r9d, %edx
	lea	16 + PR_WORDS_AT(%rax), %rsi
	mov	(%r11), %eax
	add	PG_CODE(%r8), %rax
	lea	H_KEPT - H_R11(%rsp), %rdi	/* struct calltap_registers, of which those that callers lose are there */
	call	*%rax
	jmp	.Lentry_shared_done

.Lvalued_timed:
	cmpl	$0, PC_PROFILE + probe_context(%rip)
	jne	.Lvalued_in_c
	mov	probe_triggers(%rip), %r8
	cmpl	$0, TR_FUNCTIONS(%r8)
	jne	.Lvalued_in_c
	mov	%rsi, %rdi
	shr	$GRANULE_BITS, %rdi
	cmp	%rdi, %fs:PT_TIMED(%rcx)
	je	.Lvalued_usual
.Lvalued_in_c:
	lea	SHARED_S(%rsp), %rdi
	mov	%r9d, %esi
	mov	%rdi, %rdx			/* the return address is in S itself */
	lea	H_KEPT - H_R11(%rsp), %rcx
	call	probe_values_entered
	test	%eax, %eax
	jz	.Lentry_shared_done
	jmp	.Lentry_unshared

.Lentry_unknown:
	.cfi_remember_state
	keep_callee_saved ENTRY_CFA
	jmp	.Lentry_slow

	.cfi_restore_state
.Lentry_both:
	call	probe_instances_entered_both
	test	%eax, %eax
	jz	.Lentry_shared_done
.Lentry_unshared:
	leave_stub SHARED_RET, %rsp
	give_back_caller_saved
	lea	16(%rsp), %rsp			/* = S */
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)
	.cfi_restore_state
	function_end arch_entry_handled

/* Stack on entry: 0 = S word. */
	recorder arch_exit_handled
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rdi, %rsi, %rdx, %rcx, %rax, %r8	/* the first of keep_caller_saved */
	rdtsc
	lea	48(%rsp), %rsi			/* S */
	place	%rdi, WHO_MASK
	cmpl	$HW_RECORD, (%rdi)		/* the session alone waits, as at most returns */
	jne	.Lexit_wanted
	thread_offset %rcx, %rdi
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rsi, PS_TOP(%r8)
	jne	.Lexit_wanted			/* inner frames are gone, or another stack */
	place	%rdi, LINK_MASK
	testb	$(UNRECORDED | LINK_FLAGS), (%rdi)
	jnz	.Lexit_wanted
	cmpl	$0, PC_PROFILE + probe_context(%rip)
	jne	.Lexit_wanted
	mov	probe_triggers(%rip), %rsi
	cmpl	$0, TR_FUNCTIONS(%rsi)
	jne	.Lexit_wanted
	mov	%fs:PT_WRITER(%rcx), %rsi
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Lexit_wanted
	take_slot .Lexit_wanted
	test	$4, %dl
	jnz	.Lexit_odd
	put_record 48(%rsp)
	lea	48(%rsp), %rdi
	unlink_frame 48(%rsp)
	mov	%rsi, PS_TOP(%r8)
	.cfi_remember_state
	restore	%r8, %rax, %rcx, %rdx, %rsi, %rdi
	ret

	.cfi_restore_state
.Lexit_odd:					/* behind a brief record: halves of two words, which become PADs */
	movl	$-1, (%rdx)
	add	$4, %rcx
	cmp	RW_SPAN(%rsi), %rcx
	jae	.Lexit_wanted
	movl	$-1, 4(%rdx)
.Lexit_wanted:
	save	%r9, %r10, %r11
	lea	SHARED_RET(%rsp), %rsi		/* S */
	place	%r11, WHO_MASK
	mov	(%r11), %edx			/* who waits */
	test	$~(HW_INSTANCES | HW_RECORD | HW_VALUES), %edx
	jnz	.Lexit_handled
	test	%edx, %edx
	jnz	.Lexit_shared
.Lexit_handled:
	.cfi_remember_state
	keep_callee_saved EXIT_CFA
	thread_offset %rcx, %r8
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rsi, PS_TOP(%r8)
	jne	.Lexit_slow			/* inner frames are gone, or another stack */
	place	%rdi, LINK_MASK
	mov	(%rdi), %rbp
	test	$LINK_FLAGS, %bpl
	jne	.Lexit_slow
	cmp	$HW_SESSION, %edx
	jbe	.Lexit_unwanted
	mov	$ID_MASK, %r9d
	and	EXIT_S(%rbx), %r9d
	begin	.Lexit_slow
	mov	HT_HANDLERS(%r10), %rdi
	the_slot .Lexit_slow
	mov	4(%r11), %r11d			/* generation of the table at the entry */
	sub	HS_BORN(%rdi), %r11d
	js	.Lexit_nobody			/* the handler that was there at the entry is gone */
	mov	HS_EXIT(%rdi), %r11
	test	%r11, %r11
	jz	.Lexit_nobody
	mov	HT_ROWS(%r10), %rax
	movzwl	4(%rax, %r9, 8), %eax
	mov	HT_BODIES(%r10), %rdx
	mov	(%rdx, %r9, 8), %rdx
	sub	%rax, %rdx
	pop_frame
	bts	$32, %r9			/* CALLTAP_CALL_EXIT */
	testb	$HS_DATA, HS_FLAGS(%rdi)
	jnz	.Lexit_data
.Lexit_call:
	call_handler HOW_EXIT
.Lexit_end:
	end
.Lexit_done:
	.cfi_remember_state
	mov	H_RBP(%rbx), %rbp
	give_back EXIT_CFA
	ret

	.cfi_restore_state
.Lexit_data:
	place	%rax, DATA_MASK
	mov	(%rax), %rax
	mov	%rax, H_DATA(%rbx)
	jmp	.Lexit_call
.Lexit_nobody:
	pop_frame
	jmp	.Lexit_end
.Lexit_unwanted:
	test	%edx, %edx
	jnz	.Lexit_slow			/* as at the entry */
	pop_frame
	jmp	.Lexit_done
.Lexit_slow:
	mov	$HOW_EXIT, %esi
	in_c	probe_handled_leave, arch_handled_again_exit, probe_handled_left
	jmp	.Lexit_done

	.cfi_restore_state
.Lexit_shared:
	thread_offset %rcx, %r8
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rsi, PS_TOP(%r8)
	jne	.Lexit_handled			/* inner frames are gone, or another stack */
	place	%rdi, LINK_MASK
	testb	$LINK_FLAGS, (%rdi)
	jnz	.Lexit_handled
	test	$HW_VALUES, %dl
	jnz	.Lexit_values
	mov	%rsi, %rdi
	mov	$ID_MASK, %eax
	and	(%rsi), %eax
	test	$HW_RECORD, %dl
	mov	%rsi, %rdx
	mov	%eax, %esi
	jnz	.Lexit_both
	call	probe_instances_left
.Lexit_shared_done:
	.cfi_remember_state
	give_back_caller_saved
	ret

	.cfi_restore_state
.Lexit_both:
	call	probe_instances_left_both
	jmp	.Lexit_shared_done
.Lexit_values:
	test	$HW_INSTANCES, %dl
	jnz	.Lexit_handled
	mov	%rsi, %rdi
	mov	%rsi, %rdx
	mov	$ID_MASK, %eax
	and	(%rsi), %eax
	mov	%eax, %esi
	lea	H_KEPT - H_R11(%rsp), %rcx
	call	probe_values_left
	jmp	.Lexit_shared_done
	function_end arch_exit_handled

	.section .note.GNU-stack, "", @progbits
