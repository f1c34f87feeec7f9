/*
 * The recorders that stubs call: entry and exit of a traced function, x86-64.
 *
 * Context: probe.  Every general register is preserved (a caller compiled with -fipa-ra may keep values in any of
 * them), no vector or x87 register is touched, flags are free at a call's and a return's boundary.
 *
 *     stub_f:  [ cmp %fs:gate, %rsp; jb body ]   only in gated stubs
 *              push $entry_word
 *              call *ENTRY(region)
 *              call body          pushes B_f into the return address' slot
 *     B_f:     push $exit_word
 *              jmp  *EXIT(region)
 *
 * S is the slot on the stack that held the return address; its copy lies at arch_mirror(S), and the slot of the next
 * outer traced frame of the stack at arch_link(S).  A mirror word that is not 0 marks a frame as open or stale; see
 * probe/graph.c.
 *
 * The fast recorders do the common case and leave everything else to C, which starts anew.  Up to that jump they have
 * changed only the ring's cursor, which may run past the sub-buffer.
 */
#include "offsets.h"
#include "recorder.inc"

	.text

/* Stack on entry: 0 return address in the stub, 8 word, 16 = S return address. */
	function arch_entry_fast, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	find_frame PT_GRANULE, .Lentry_slow, .Lentry_not_below
	mov	%fs:PT_WRITER(%rcx), %rsi
	rdtsc
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Lentry_slow
	take_slot .Lentry_slow
	put_record 56(%rsp)
	lea	64(%rsp), %rsi
	link_frame
	mov	%rsi, PS_TOP(%r8)
.Lentry_done:
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	ret	$16				/* rsp = S + 8: the slot is free for the body's call */

	/* The frame goes on under another name. */
	.cfi_adjust_cfa_offset 48
.Lentry_not_below:
	find_tail .Lentry_slow
	test	%rax, %rax
	js	.Lentry_slow			/* it is not this recorder's */
	mov	%fs:PT_WRITER(%rcx), %rsi
	rdtsc
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Lentry_slow
	take_slot .Lentry_slow
	put_record 56(%rsp), TO_TAIL
	.cfi_remember_state
	jmp	.Lentry_done
	.cfi_restore_state
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
	.globl	arch_entry_untraced		/* for gated.S: registers saved */
	.hidden	arch_entry_untraced
arch_entry_untraced:
	leave_stub 48, %rsp
	restore	%r8, %rdi, %rsi, %rcx, %rdx, %rax
	lea	16(%rsp), %rsp			/* = S */
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)			/* in the red zone: handlers keep off */
	function_end arch_entry_fast

/* An entry that goes to C at once; C gets (slot, word, address of the return address). */
.macro entry_in_c name, function
	function \name
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	lea	\function(%rip), %rax
	jmp	.Lentry_c
	function_end \name
.endm

	entry_in_c arch_entry_full, probe_graph_entry_full
	entry_in_c arch_entry_root, probe_graph_entry_root
	entry_in_c arch_entry_notree, probe_graph_entry_notree

/* Stack on entry: 0 = S word. */
	function arch_exit_fast, 6
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	rdtsc
	find_top .Lexit_slow
	mov	%fs:PT_WRITER(%rcx), %rsi
	cmp	%edx, RW_TIME_HI(%rsi)
	jne	.Lexit_slow
	take_slot .Lexit_slow
	put_record 48(%rsp)
	unlink_frame 48(%rsp)
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
	function_end arch_exit_fast

.macro exit_in_c name, function
	function \name
	CFI_RETURN_BY_MIRROR
	endbr64
	save	%rax, %rdx, %rcx, %rsi, %rdi, %r8
	lea	\function(%rip), %rax
	jmp	.Lexit_c
	function_end \name
.endm

	exit_in_c arch_exit_full, probe_graph_exit_full
	exit_in_c arch_exit_notree, probe_graph_exit_notree

/*
 * Tracer "function": a record of two words and on to the body.
 * Stack on entry: 0 return address in the stub, 8 word, 16 = S return address.
 */
	function arch_call, 6
	.cfi_def_cfa_offset 24
	endbr64
	save	%rax, %rdx, %rcx, %rsi
	thread_offset %rcx, %rsi
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
	put_record 40(%rsp)
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
	function_end arch_call

/* long arch_thread_start(flags, stack_top, fn, arg, child_tid) */
	function arch_thread_start
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
	function_end arch_thread_start

/* A page of text that the program never runs: ways to change text are tried out on it (patch/poke.c). */
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
