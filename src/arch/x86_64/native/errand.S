/*
 * The code that a borrowed thread runs: load the agent, call it, and go back to where the thread was.
 *
 * The tool copies this into the slack behind a text segment of the target, fills in the words (struct errand_words in
 * attach.c), and sets the thread's pc to errand_code.  All else in the registers is the program's.  From then on the
 * tool may be gone at any instant: all that it takes to go back lies in the words.  The thread's own stack is not
 * touched before its signal mask is back.  Position independent; runs in the target only.
 */
#include "errand.h"

#define SYS_mmap	   9
#define SYS_munmap	   11
#define SYS_rt_sigaction   13
#define SYS_rt_sigprocmask 14
#define SYS_madvise	   28
#define SYS_close	   3
#define SYS_rt_sigpending  127
#define SYS_ppoll	   271
#define SYS_memfd_create   319

#define PROT_READ_WRITE	   3
#define MAP_OURS	   0x100022 /* MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE */
#define MADV_DONTFORK	   10
#define MFD_CLOEXEC	   1
#define MFD_EXEC	   0x10
#define SIG_SETMASK	   2
#define SA_RESTART	   0x10000000
#define FLAG_DF		   0x400
#define FLAG_OF		   0x800

	.section .rodata
	.balign	16
	.globl	errand_begin
	.hidden	errand_begin
errand_begin:
magic:		.quad	ERRAND_MAGIC
memory:		.quad	0
load:		.quad	0
load_error:	.quad	0
errno_location:	.quad	0
entry:		.quad	0
entry_offset:	.quad	0
signal_mask:	.quad	0
blocked:	.quad	-1
pc:		.quad	0
rax:		.quad	0
pc_broken:	.quad	0
rax_broken:	.quad	0
flags:		.quad	0
rsp:		.quad	0
rbx:		.quad	0
rcx:		.quad	0
rdx:		.quad	0
rsi:		.quad	0
rdi:		.quad	0
rbp:		.quad	0
r8:		.quad	0
r9:		.quad	0
r10:		.quad	0
r11:		.quad	0
r12:		.quad	0
r13:		.quad	0
r14:		.quad	0
r15:		.quad	0
load_flags:	.long	0
memfd:		.long	0
breaks:		.long	0
mxcsr:		.long	0x1f80
memfd_name:	.asciz	"libcalltap-agent.so"
		.zero	4
errand_words_end:
	/*
	 * struct errand_words has as many: more of them here, or fewer, would have the assembler go back, which is an
	 * error.
	 */
	.org	errand_begin + ERRAND_WORDS
	.org	errand_words_end

	/* No handler from here on: it could jump out of this. */
errand_code:
	cld
	movl	$SIG_SETMASK, %edi
	leaq	blocked(%rip), %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	movl	$SYS_rt_sigprocmask, %eax
	syscall
	movq	memory(%rip), %rdi
	movl	$ATTACH_SIZE, %esi
	movl	$PROT_READ_WRITE, %edx
	movl	$MAP_OURS, %r10d
	movq	$-1, %r8
	xorl	%r9d, %r9d
	movl	$SYS_mmap, %eax
	syscall
	xorl	%r14d, %r14d		/* r14: 1 = the interrupted call has to return EINTR */
	cmpq	memory(%rip), %rax
	je	mapped
	/* A kernel that does not know MAP_FIXED_NOREPLACE maps another place; a small number is an error. */
	cmpq	$-4096, %rax
	ja	nothing_mapped
	movq	%rax, %rdi
	movl	$ATTACH_SIZE, %esi
	movl	$SYS_munmap, %eax
	syscall
nothing_mapped:
	/* This path has no stack to take the flags from. */
	movq	flags(%rip), %rdx
	testl	$FLAG_DF, %edx
	jz	1f
	std
1:	movl	%edx, %eax
	shll	$8, %eax
	testl	$FLAG_OF, %edx		/* and OF is clear */
	jz	1f
	movb	$0x7f, %cl
	incb	%cl
1:	sahf
	jmp	back

mapped:
	movq	%rax, %r15		/* r15: struct calltap_attach */
	leaq	ATTACH_SIZE(%rax), %rsp
	movq	%rax, %rdi
	movl	$ATTACH_SIZE, %esi
	movl	$MADV_DONTFORK, %edx
	movl	$SYS_madvise, %eax
	syscall
	cmpl	$0, memfd(%rip)
	je	ready
	movl	$(MFD_CLOEXEC | MFD_EXEC), %esi
	leaq	memfd_name(%rip), %rdi
	movl	$SYS_memfd_create, %eax
	syscall
	testl	%eax, %eax
	jns	made
	movl	$MFD_CLOEXEC, %esi	/* before Linux 6.3 */
	leaq	memfd_name(%rip), %rdi
	movl	$SYS_memfd_create, %eax
	syscall
made:
	movl	%eax, ATTACH_MEMFD(%r15)
ready:
	movl	$ERRAND_NAPS, %r12d
	movl	%r12d, ATTACH_NAPS(%r15)
	movl	$ATTACH_READY, %eax
	xchgl	%eax, ATTACH_STATE(%r15)
	movl	$ATTACH_READY, %r13d
	call	await
	movl	$ATTACH_NONE, %ebx
	cmpl	$ATTACH_GO, ATTACH_STATE(%r15)
	jne	gone			/* the tool is gone, or thinks better of it */

	/* xsave writes only what is in use, into memory that is zero. */
	movl	$-1, %eax
	movl	$-1, %edx
	xsave64	ATTACH_XSAVE(%r15)
	fninit
	ldmxcsr	mxcsr(%rip)
	leaq	ATTACH_SPARE(%r15), %rax
	cmpq	$0, errno_location(%rip)
	je	1f
	call	*errno_location(%rip)
1:	movq	%rax, %r13		/* r13: where errno is, r12: what it was */
	movl	(%rax), %r12d
	movq	entry(%rip), %rax
	testq	%rax, %rax
	jnz	enter
	cmpq	$0, load(%rip)
	je	place
	leaq	ATTACH_AGENT(%r15), %rdi
	movl	load_flags(%rip), %esi
	call	*load(%rip)
	testq	%rax, %rax
	jz	refused
	cmpq	$0, entry_offset(%rip)
	je	alone
	movq	(%rax), %rax		/* struct link_map.l_addr */
	addq	entry_offset(%rip), %rax
enter:
	movq	%r15, %rdi
	call	*%rax
	movl	%eax, ATTACH_RESULT(%r15)
	movl	$ATTACH_LOADED, %ebx
	jmp	called
alone:
	movl	$ATTACH_ALONE, ATTACH_RESULT(%r15) /* this code unmaps the memory */
	movl	$ATTACH_LOADED, %ebx
	jmp	called

	/*
	 * No loader: the file is mapped by parts, whose first is the whole.  Where that one cannot be had there may be
	 * something of the program's, or an older kernel, which knows no MAP_FIXED_NOREPLACE, has chosen another place.
	 */
place:
	leaq	ATTACH_PARTS(%r15), %rbp
next_part:
	movq	(%rbp), %rdi
	testq	%rdi, %rdi
	jz	placed
	movq	8(%rbp), %rsi
	movq	16(%rbp), %r9
	movl	24(%rbp), %edx
	movl	28(%rbp), %r10d
	movslq	ATTACH_MEMFD(%r15), %r8
	movl	$SYS_mmap, %eax
	syscall
	cmpq	(%rbp), %rax
	leaq	ATTACH_PART_SIZE(%rbp), %rbp
	je	next_part
	movq	ATTACH_PARTS(%r15), %rdi
	leaq	(ATTACH_PARTS + ATTACH_PART_SIZE)(%r15), %rcx
	cmpq	%rcx, %rbp
	jne	1f
	movq	%rax, %rdi
	cmpq	$-4096, %rax
	ja	refused
1:	movq	(ATTACH_PARTS + 8)(%r15), %rsi
	movl	$SYS_munmap, %eax
	syscall
	jmp	refused
placed:
	movq	ATTACH_PARTS(%r15), %rax
	addq	entry_offset(%rip), %rax
	jmp	enter
refused:
	movl	$ATTACH_FAILED, %ebx
	movq	load_error(%rip), %rax
	testq	%rax, %rax
	jz	called
	call	*%rax
	testq	%rax, %rax
	jz	called
	xorl	%ecx, %ecx
1:	movb	(%rax, %rcx), %dl
	testb	%dl, %dl
	jz	called
	movb	%dl, ATTACH_ERROR(%r15, %rcx)
	incl	%ecx
	cmpl	$(ATTACH_ERROR_SIZE - 1), %ecx
	jb	1b
called:
	movl	%r12d, (%r13)
	movl	$-1, %eax
	movl	$-1, %edx
	xrstor64 ATTACH_XSAVE(%r15)
gone:
	cmpl	$0, memfd(%rip)
	je	1f
	movl	ATTACH_MEMFD(%r15), %edi
	movl	$SYS_close, %eax
	syscall
1:

	/*
	 * Signals that came meanwhile will be handled before the interrupted
	 * call is made again.  It has to return EINTR then, as if it had gone
	 * on all the time, unless each handler's call is to restart it.
	 */
	cmpl	$BREAKS_NEVER, breaks(%rip)
	je	looked
	subq	$64, %rsp
	movq	%rsp, %rdi
	movl	$8, %esi
	movl	$SYS_rt_sigpending, %eax
	syscall
	movq	signal_mask(%rip), %rbp
	notq	%rbp
	andq	(%rsp), %rbp
next_signal:
	bsfq	%rbp, %rdi
	jz	looked
	btrq	%rdi, %rbp
	incl	%edi
	xorl	%esi, %esi
	movq	%rsp, %rdx		/* handler, flags, ... */
	movl	$8, %r10d
	movl	$SYS_rt_sigaction, %eax
	syscall
	testq	%rax, %rax
	jnz	next_signal
	cmpq	$1, (%rsp)		/* SIG_DFL, SIG_IGN */
	jbe	next_signal
	cmpl	$BREAKS_ALWAYS, breaks(%rip)
	je	broken
	testl	$SA_RESTART, 8(%rsp)
	jnz	next_signal
broken:
	movl	$1, %r14d
looked:
	leaq	ATTACH_SIZE(%r15), %rsp
	movl	%ebx, %r13d
	xchgl	%ebx, ATTACH_STATE(%r15)
	cmpl	$ATTACH_LOADED, %r13d
	jne	1f
	cmpl	$0, ATTACH_RESULT(%r15)
	je	left			/* the agent unmaps it */
1:	cmpl	$ATTACH_NONE, %r13d
	je	unmap
	movl	$ERRAND_NAPS, %r12d
	call	await			/* the tool reads why */

	/* From the flags on only instructions that leave them alone; system calls do. */
unmap:
	pushq	flags(%rip)
	popfq
	movq	rsp(%rip), %rsp
	movq	%r15, %rdi
	movl	$ATTACH_SIZE, %esi
	movl	$SYS_munmap, %eax
	syscall
	jmp	back
left:
	pushq	flags(%rip)
	popfq
	movq	rsp(%rip), %rsp
	movl	$1, ATTACH_LEFT(%r15)
back:
	movl	$SIG_SETMASK, %edi
	leaq	signal_mask(%rip), %rsi
	movl	$0, %edx
	movl	$8, %r10d
	movl	$SYS_rt_sigprocmask, %eax
	syscall
	movq	%r14, %rcx
	movq	rbx(%rip), %rbx
	movq	rdx(%rip), %rdx
	movq	rsi(%rip), %rsi
	movq	rdi(%rip), %rdi
	movq	rbp(%rip), %rbp
	movq	r8(%rip), %r8
	movq	r9(%rip), %r9
	movq	r10(%rip), %r10
	movq	r11(%rip), %r11
	movq	r12(%rip), %r12
	movq	r13(%rip), %r13
	movq	r14(%rip), %r14
	movq	r15(%rip), %r15
	jrcxz	1f
	movq	rcx(%rip), %rcx
	movq	rax_broken(%rip), %rax
	jmp	*pc_broken(%rip)
1:	movq	rcx(%rip), %rcx
	movq	rax(%rip), %rax
	jmp	*pc(%rip)

	/*
	 * Wait r12 naps for another state than r13.  ppoll() has no restart block, which an interrupted call may need
	 * yet.
	 */
await:
	cmpl	%r13d, ATTACH_STATE(%r15)
	jne	1f
	decl	%r12d
	js	1f
	movl	%r12d, ATTACH_NAPS(%r15)
	movl	$ERRAND_NAP_NS, %eax
	cmpl	$ERRAND_LONG_NAPS, %r12d
	jae	2f
	movl	$ERRAND_LONG_NAP_NS, %eax
2:	pushq	%rax
	pushq	$0
	movq	%rsp, %rdx
	xorl	%edi, %edi
	xorl	%esi, %esi
	xorl	%r10d, %r10d
	movl	$8, %r8d
	movl	$SYS_ppoll, %eax
	syscall
	addq	$16, %rsp
	jmp	await
1:	ret

	.globl	errand_end
	.hidden	errand_end
errand_end:
	.section .note.GNU-stack, "", @progbits
