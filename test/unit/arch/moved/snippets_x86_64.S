/*
 * x86-64's instructions that depend on their address, for moved.c; rax leads
 * to the landing, rbx to a word that does, and so do the words on the stack.
 */
#define TRAP int3
#include "snippets.h"

BEGIN
	.balign 8
cell:	.quad 0x123456789abcdef0
	.pushsection .data
	.balign 8
slot:	.quad landing
	.popsection

SNIPPET(push %rbp)
SNIPPET(lea cell(%rip), %rcx)
SNIPPET(lea cell(%rip), %r14)
SNIPPET(lea cell(%rip), %r9d)
SNIPPET(mov cell(%rip), %rcx)
SNIPPET(cmpl $0x9abcdef0, cell(%rip))
SNIPPET(imul $3, cell(%rip), %edx)
SNIPPET(movdqu cell(%rip), %xmm3; movq %xmm3, %rcx)
SNIPPET(jmp landing)
SNIPPET(je landing)
SNIPPET(jnc landing)
SNIPPET(jg landing)
SNIPPET(loop 1f; lea 1(%rdx), %rdx; 1: nop)
SNIPPET(loopne 1f; lea 1(%rdx), %rdx; 1: nop)
SNIPPET(loope 1f; lea 1(%rdx), %rdx; 1: nop)
SNIPPET(jrcxz 1f; lea 1(%rdx), %rdx; 1: nop)
SNIPPET(jecxz 1f; lea 1(%rdx), %rdx; 1: nop)
SNIPPET(call landing)
SNIPPET(.byte 0x66, 0x48; call landing)
SNIPPET(call *%rax)
SNIPPET(call *(%rbx))
SNIPPET(call *(%rsp))
SNIPPET(call *8(%rsp))
SNIPPET(call *0x78(%rsp))
SNIPPET(call *-0x80(%rsp))
SNIPPET(call *slot(%rip))
SNIPPET(notrack call *%rax)
SNIPPET(jmp *%rax)
SNIPPET(jmp *(%rsp))
SNIPPET(jmp *slot(%rip))
SNIPPET(ret)
SNIPPET(ret $16)
END
