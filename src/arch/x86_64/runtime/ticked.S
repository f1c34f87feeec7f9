/*
 * The recorders of tracer profile with `--time adaptive`, x86-64.  How stubs call them, and what they may touch: entry.S.
 *
 * The recorders of profile.S read the clock, those of this file do not: the time of a frame is the tick that its thread
 * has seen last (calltap/abi/times.h).  A call that begins and ends under one tick takes no time by it, and is counted; C adds up all others.
 * doc/design/profile.md has the argument.
 *
 * As in entry.S, nothing was changed when they go to C.
 */
#include "offsets.h"
#include "recorder.inc"

/* To tick: the present tick.  other: the thread, whose block is rcx, has not seen it. */
.macro present_tick tick, other
	mov	probe_times(%rip), \tick
	mov	TM_TICK(\tick), \tick
	cmp	%fs:PT_TICK(%rcx), \tick
	jne	\other
.endm

/*
 * The table in rdx: to entry, the function's, by the word of its stub; ids of tables are short enough for the kind to be
 * shifted out.
 */
.macro find_entry word, entry, entry32, beyond
	mov	\word, \entry32
	shl	$PE_BITS, \entry32
	add	TB_ENTRIES(%rdx), \entry
	cmp	TB_END(%rdx), \entry		/* last, for a fork in a handler clears both */
	jae	\beyond
.endm

/*
 * Stack on entry: 0 return address in the stub, 8 word, 16 = S return address.
 * rsi: S; rdi: its place in a plane; r8: the stack; rax: the tick; rdx: the table; rcx: the function's entry in it.
 */
	function arch_entry_ticked, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_frame PT_TIMED, .Lentry_slow, .Lentry_slow
	present_tick %rax, .Lentry_slow
	mov	%fs:PT_TABLE(%rcx), %rdx
	find_entry 56(%rsp), %rcx, %ecx, .Lentry_slow
	cmpq	$0, PE_OUTER(%rcx)
	jne	.Lentry_again
	link_frame %rdx
	flip	%rdi, ENTERED_BIT, ENTERED_SKEW
	mov	%rax, (%rdi)
	mov	%rax, PE_SINCE(%rcx)
	mov	%rsi, PE_OUTER(%rcx)
.Lentry_put:
	mov	%rsi, PS_TOP(%r8)
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16

	.cfi_adjust_cfa_offset 48
.Lentry_again:
	save	%r9
	look_at_outermost %r9, .Lagain_slow
	jne	.Lagain_slow
	.cfi_remember_state
	restore	%r9
	link_frame %rdx
	flip	%rdi, ENTERED_BIT, ENTERED_SKEW
	mov	%rax, (%rdi)
	jmp	.Lentry_put
	.cfi_restore_state
.Lagain_slow:
	restore	%r9
.Lentry_slow:
	lea	probe_graph_entry(%rip), %rax
	jmp	arch_entry_to_c
	function_end arch_entry_ticked

/*
 * Stack on entry: 0 = S word.
 *
 * rcx: the thread's block; rdi: S, or its place in a plane; rsi: the stack, and then the function's entry in the table.
 * A frame's planes are there since it was entered, in whatever granule.
 */
	function arch_exit_ticked, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rdx, %rcx, %rsi, %rdi
	thread_offset %rcx, %rsi
	lea	32(%rsp), %rdi
	mov	%fs:PT_STACK(%rcx), %rsi
	cmp	%rdi, PS_TOP(%rsi)
	jne	.Lexit_slow			/* inner frames are gone, or another stack */
	present_tick %rdx, .Lexit_slow
	flip	%rdi, LINK_BIT, (MIRROR_SKEW ^ LINK_SKEW ^ ENTERED_SKEW)
	cmp	%rdx, (%rdi)
	jne	.Lexit_slow			/* the tick has changed since, or a fork has come between */
	mov	%fs:PT_TABLE(%rcx), %rdx
	find_entry 32(%rsp), %rsi, %esi, .Lexit_slow
	cmp	TB_WATCH(%rdx), %rsi
	je	.Lexit_slow			/* the function's callers are counted */
	incq	PE_CALLS(%rsi)
	lea	32(%rsp), %rdi
	cmp	%rdi, PE_OUTER(%rsi)
	jne	1f				/* the inner call of a recursion */
	movq	$0, PE_OUTER(%rsi)
1:	unlink_frame 32(%rsp), %rdx
	mov	%fs:PT_STACK(%rcx), %rdx
	mov	%rsi, PS_TOP(%rdx)
	restore	%rdi, %rsi, %rcx, %rdx
	ret

	.cfi_adjust_cfa_offset 32
.Lexit_slow:
	restore	%rdi, %rsi, %rcx, %rdx
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	lea	probe_graph_exit(%rip), %rax
	jmp	arch_exit_to_c
	function_end arch_exit_ticked

	.section .note.GNU-stack, "", @progbits
