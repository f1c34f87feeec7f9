/*
 * syscall() as its callers use it: with fewer than seven words, so that what lies on the stack is the caller's own, and
 * as libraries do that ask by calls which must fail what a kernel's seccomp has.  Calls go on to be recorded behind
 * them.  With an argument: at the end the clock may not be read any more, by the system call's number.
 */
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "truth.h"

#define MARKS 4

#ifdef __x86_64__

/* Call syscall() with three arguments, and with marks where a seventh would be, and above; marks[]: what is there then.
 */
long call_marked(long number, long a, long b, long c, unsigned long marks[MARKS]);
__asm__("	.text\n"
	"	.globl	call_marked\n"
	"	.type	call_marked, @function\n"
	"call_marked:\n"
	"	.cfi_startproc\n"
	"	push	%rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %rbx, -16\n"
	"	mov	%r8, %rbx\n"
	"	push	24(%r8)\n"
	"	push	16(%r8)\n"
	"	push	8(%r8)\n"
	"	push	(%r8)\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	call	syscall@PLT\n"
	"	pop	(%rbx)\n"
	"	pop	8(%rbx)\n"
	"	pop	16(%rbx)\n"
	"	pop	24(%rbx)\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	pop	%rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size	call_marked, . - call_marked\n");

#else

/* All seven words are in registers. */
UNTRACED static long call_marked(long number, long a, long b, long c, unsigned long marks[MARKS])
{
	return syscall(number, a, b, c);
}

#endif

TRACED static void leaf(void)
{
	TRUTH();
}

TRACED static void try_call(const char *name, long number, long a, long b, long c)
{
	TRUTH();
	unsigned long marks[MARKS] = {11, 22, 33, 44};
	long got = call_marked(number, a, b, c, marks);

	leaf();
	printf("%s: %s, marks %lu %lu %lu %lu\n", name, got ? "no" : "yes", marks[0], marks[1], marks[2], marks[3]);
}

int main(int argc, char **argv)
{
	TRUTH();
	unsigned action = SECCOMP_RET_ALLOW;

	try_call("seccomp allows", SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, (long)&action);
	try_call("seccomp strict, with a flag", SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0);
	try_call("seccomp strict, with a pointer", SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, (long)&action);
	try_call("seccomp filter, without one", SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0);
	try_call("seccomp of no kind", SYS_seccomp, 77, 0, 0);
	try_call("prctl seccomp filter, without one", SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0);
	try_call("prctl name", SYS_prctl, PR_SET_NAME, (long)"renamed", 0);
	try_call("prctl of no kind", SYS_prctl, 12345, 0, 0);
	try_call("getppid", SYS_getppid, 0, 0, 0);
	if (argc > 1) {
		fflush(stdout);
		if (!syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0L, 0L, 0L))
			leaf();
		printf("the clock is off\n");
	}
	return 0;
}
