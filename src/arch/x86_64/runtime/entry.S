/*
 * The recorders that stubs call: entry and exit of a traced function, x86-64.
 *
 * Context: probe.  Every general register is preserved (a caller compiled
 * with -fipa-ra may keep values in any of them), no vector or x87 register is
 * touched, flags are free at a call's and a return's boundary.
 *
 *     stub_f:  [ cmp %fs:gate, %rsp; jb body ]   only in gated stubs
 *              push $entry_word
 *              call *ENTRY(region)
 *              call body          pushes B_f into the return address' slot
 *     B_f:     push $exit_word
 *              jmp  *EXIT(region)
 *
 * S is the slot on the stack that held the return address; its copy lies at
 * arch_mirror(S), and the slot of the next outer traced frame of the stack at
 * arch_link(S).  A mirror word that is not 0 marks a frame as live or stale;
 * see probe/graph.c.
 *
 * The fast recorders do the common case and leave everything else to C, which
 * starts anew: up to that jump nothing was changed but the ring's cursor,
 * which may run past the sub-buffer.
 */
#include "offsets.h"
#include "recorder.inc"

	.text

/* Stack on entry: 0 return address in the stub, 8 word, 16 = S return address. */
	.globl	arch_entry_fast
	.hidden	arch_entry_fast
	.type	arch_entry_fast, @function
	.p2align 6
arch_entry_fast:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	thread_offset %rcx
	lea	64(%rsp), %rsi			/* S */
	mov	%rsi, %rdi
	shr	$GRANULE_BITS, %rdi
	cmp	%rdi, %fs:PT_GRANULE(%rcx)
	jne	.Lentry_slow			/* another granule than the last call's */
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	PS_TOP(%r8), %rsi
	jae	.Lentry_slow			/* frames are gone, or another stack */
	cmp	PS_LOW(%r8), %rsi
	jb	.Lentry_slow			/* another stack */
	mov	%rsi, %rdi
	btc	$MIRROR_BIT, %rdi
	xor	$MIRROR_SKEW, %rdi
	cmpq	$0, (%rdi)
	jne	.Lentry_slow			/* a tail call, or a stale frame */
	mov	%fs:PT_WRITER(%rcx), %rsi
	rdtsc
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Lentry_slow
	mov	$8, %edx
	xadd	%rdx, RW_CURSOR(%rsi)		/* take a slot */
	mov	%rdx, %rcx
	sub	RW_BASE(%rsi), %rcx		/* one load decides: see ring/writer.h */
	cmp	RW_SPAN(%rsi), %rcx
	jae	.Lentry_slow
	mov	56(%rsp), %esi
	shl	$32, %rsi
	or	%rax, %rsi
	mov	%rsi, (%rdx)			/* the record: visible from here on */
	lea	64(%rsp), %rsi
	mov	(%rsi), %rax
	mov	%rax, (%rdi)
	btc	$LINK_BIT, %rdi
	xor	$LINK_SKEW, %rdi
	mov	PS_TOP(%r8), %rax
	mov	%rax, (%rdi)
	mov	%rsi, PS_TOP(%r8)
.Lentry_done:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16				/* rsp = S + 8: the slot is free for the body's call */

	.cfi_adjust_cfa_offset 48
.Lentry_slow:
	lea	probe_graph_entry(%rip), %rax
.Lentry_c:
	.globl	arch_entry_to_c			/* profile.S jumps here, too: registers saved, the function in rax */
	.hidden	arch_entry_to_c
arch_entry_to_c:
	save	%r9, %r10, %r11
	lea	88(%rsp), %rdi			/* S */
	mov	80(%rsp), %esi			/* word */
	mov	%rdi, %rdx			/* where the return address is: in S itself */
	cld
	call	*%rax
	restore	%r11, %r10, %r9
	test	%eax, %eax
	jz	.Lentry_done
	/* Not traced: go to the body with the return address still in S. */
	mov	48(%rsp), %rax			/* at the stub's `call body` */
	movslq	1(%rax), %rdx
	lea	5(%rax,%rdx), %rax
	mov	%rax, 56(%rsp)
	xor	%eax, %eax
	rdsspq	%rax				/* a no-op without a shadow stack */
	test	%rax, %rax
	jz	1f
	mov	$1, %eax
	incsspq	%rax				/* the call from the stub is not returned to */
1:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	lea	16(%rsp), %rsp			/* = S */
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)			/* in the red zone: handlers keep off */
	.cfi_endproc
	.size	arch_entry_fast, . - arch_entry_fast

/* An entry that goes to C at once; C gets (slot, word, where the return address is). */
.macro entry_in_c name, function
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	lea	\function(%rip), %rax
	jmp	.Lentry_c
	.cfi_endproc
	.size	\name, . - \name
.endm

	entry_in_c arch_entry_full, probe_graph_entry_full
	entry_in_c arch_entry_root, probe_graph_entry_root
	entry_in_c arch_entry_notree, probe_graph_entry_notree

/* Stack on entry: 0 = S word. */
	.globl	arch_exit_fast
	.hidden	arch_exit_fast
	.type	arch_exit_fast, @function
	.p2align 6
arch_exit_fast:
	.cfi_startproc
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	rdtsc
	thread_offset %rcx
	lea	48(%rsp), %rdi			/* S */
	mov	%fs:PT_STACK(%rcx), %r8
	cmp	%rdi, PS_TOP(%r8)
	jne	.Lexit_slow			/* inner frames are gone, or another stack */
	mov	%fs:PT_WRITER(%rcx), %rsi
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Lexit_slow
	mov	$8, %edx
	xadd	%rdx, RW_CURSOR(%rsi)
	mov	%rdx, %rcx
	sub	RW_BASE(%rsi), %rcx
	cmp	RW_SPAN(%rsi), %rcx
	jae	.Lexit_slow
	mov	48(%rsp), %esi
	shl	$32, %rsi
	or	%rax, %rsi
	mov	%rsi, (%rdx)
	btc	$MIRROR_BIT, %rdi
	xor	$MIRROR_SKEW, %rdi
	mov	(%rdi), %rax
	mov	%rax, 48(%rsp)
	movq	$0, (%rdi)
	btc	$LINK_BIT, %rdi
	xor	$LINK_SKEW, %rdi
	mov	(%rdi), %rsi			/* slot of the next outer frame */
	mov	%rsi, PS_TOP(%r8)
.Lexit_done:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret

	.cfi_adjust_cfa_offset 48
.Lexit_slow:
	lea	probe_graph_exit(%rip), %rax
.Lexit_c:
	.globl	arch_exit_to_c
	.hidden	arch_exit_to_c
arch_exit_to_c:
	save	%r9, %r10, %r11
	lea	72(%rsp), %rdi			/* S */
	mov	72(%rsp), %esi			/* word */
	mov	%rdi, %rdx
	cld
	call	*%rax				/* puts the return address into S */
	restore	%r11, %r10, %r9
	jmp	.Lexit_done
	.cfi_endproc
	.size	arch_exit_fast, . - arch_exit_fast

.macro exit_in_c name, function
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	lea	\function(%rip), %rax
	jmp	.Lexit_c
	.cfi_endproc
	.size	\name, . - \name
.endm

	exit_in_c arch_exit_full, probe_graph_exit_full
	exit_in_c arch_exit_notree, probe_graph_exit_notree

/*
 * Tracer "function": a record of two words and on to the body.
 * Stack on entry: 0 return address in the stub, 8 word, 16 = S return address.
 */
	.globl	arch_call
	.hidden	arch_call
	.type	arch_call, @function
	.p2align 6
arch_call:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi
	thread_offset %rcx
	mov	%fs:PT_WRITER(%rcx), %rcx
	rdtsc
	cmp	%edx, RW_TIME_HI(%rcx)
	jne	.Lcall_slow
	mov	$16, %edx
	xadd	%rdx, RW_CURSOR(%rcx)
	mov	%rdx, %rsi
	sub	RW_BASE(%rcx), %rsi
	cmp	RW_SPAN2(%rcx), %rsi
	jae	.Lcall_slow
	mov	48(%rsp), %rcx			/* the caller */
	mov	%rcx, 8(%rdx)
	mov	40(%rsp), %esi
	shl	$32, %rsi
	or	%rax, %rsi
	mov	%rsi, (%rdx)
.Lcall_done:
	restore	%rsi, %rcx, %rdx, %rax
	ret	$8				/* rsp = S; the stub jumps to the body */

	.cfi_adjust_cfa_offset 32
.Lcall_slow:
	save	%rdi, %r8, %r9, %r10, %r11
	mov	88(%rsp), %rdi			/* the caller */
	mov	80(%rsp), %esi
	cld
	call	probe_call
	restore	%r11, %r10, %r9, %r8, %rdi
	jmp	.Lcall_done
	.cfi_endproc
	.size	arch_call, . - arch_call

/* long arch_thread_start(flags, stack_top, fn, arg, child_tid) */
	.globl	arch_thread_start
	.hidden	arch_thread_start
	.type	arch_thread_start, @function
	.p2align 4
arch_thread_start:
	.cfi_startproc
	endbr64
	sub	$16, %rsi
	mov	%rdx, (%rsi)
	mov	%rcx, 8(%rsi)
	mov	%r8, %r10
	xor	%edx, %edx
	mov	$56, %eax			/* clone */
	syscall
	test	%eax, %eax
	jz	1f
	ret
	.cfi_undefined %rip
1:	xor	%ebp, %ebp
	pop	%rax
	pop	%rdi
	call	*%rax
	mov	%eax, %edi
	mov	$60, %eax			/* exit: this thread alone */
	syscall
	ud2
	.cfi_endproc
	.size	arch_thread_start, . - arch_thread_start

/* A page of text that is the program's to run nowhere: ways to change text are tried out on it (patch/poke.c). */
	.section .text.scratch, "ax", @progbits
	.globl	arch_scratch_page
	.hidden	arch_scratch_page
	.type	arch_scratch_page, @object
	.p2align 12
arch_scratch_page:
	mov	$0, %eax
	ret
	.fill	arch_scratch_page + 4096 - ., 1, 0xcc
	.size	arch_scratch_page, . - arch_scratch_page

	.section .note.GNU-stack, "", @progbits
