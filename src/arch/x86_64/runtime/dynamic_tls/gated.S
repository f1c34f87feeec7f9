/*
 * Recorders for gated stubs where these cannot test the gate themselves, as
 * there is no one place from the thread pointer to it (thread_block.h).  An
 * open gate leads to the recorder proper, which begins anew.
 *
 * Context: probe; how stubs call them, and what they may touch: entry.S.
 */
#include "../offsets.h"
#include "../recorder.inc"

/* Stack on entry: 0 return address in the stub, 8 word, 16 = S return address. */
.macro gated name, recorder
	function \name, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	thread_offset %rcx, %rsi
	lea	64(%rsp), %rsi			/* S */
	cmpl	$0, PC_TREE_FILTER + probe_context(%rip)
	jne	1f
	cmp	%fs:PT_GATE(%rcx), %rsi
	jb	arch_entry_untraced
	.cfi_remember_state
2:	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	jmp	\recorder
	.cfi_restore_state
1:	cmp	%fs:PT_TREE_GATE(%rcx), %rsi
	jb	arch_entry_untraced
	jmp	2b
	function_end \name
.endm

	.text
	gated arch_gated_fast, arch_entry_fast
	gated arch_gated_full, arch_entry_full
	gated arch_gated_notree, arch_entry_notree
	gated arch_gated_profile, arch_entry_profile
	gated arch_gated_timed, arch_entry_timed
	gated arch_gated_brief, arch_entry_brief
	gated arch_gated_ticked, arch_entry_ticked

	.section .note.GNU-stack, "", @progbits
