/* place_switch() of routine.h in assembly, for x86-64: what a callee must keep lies on the stack that is left. */
#ifndef TEST_PROG_SWITCH_H
#define TEST_PROG_SWITCH_H

/* Words of a stack that is left; among them where it goes on, and the argument of routine_first. */
enum { SWITCH_WORDS = 8, SWITCH_GOES_ON = 6, SWITCH_ARGUMENT = 3 };

/* %rdi, %rsi: where the stack's pointer is kept, and the other's. */
__asm__(".text\n"
	".globl place_switch\n"
	".hidden place_switch\n"
	".type place_switch, @function\n"
	"place_switch:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov (%rsi), %rsp\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size place_switch, . - place_switch\n"
	/* The first switch to a routine returns to here; it has put itself into %r12. */
	".globl routine_first\n"
	".hidden routine_first\n"
	".type routine_first, @function\n"
	"routine_first:\n"
	"	mov %r12, %rdi\n"
	"	call routine_body\n"
	"	ud2\n"
	".size routine_first, . - routine_first\n");

#endif
