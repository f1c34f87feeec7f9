/*
 * A stack as _Unwind_Backtrace() shows it, in the midst of calls, in a signal's handler, and on a coroutine whose first
 * function has 0 for its return address, calls another by a jump, and throws.
 *
 * walks: prints each frame's function, by the distance from its beginning, and ends with 0.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

#define FRAMES_MAX 40
#define STACK	   (64 << 10)
#define KEPT	   __attribute__((noinline, used))

static struct _Unwind_Exception exception;
static void *main_stack;
extern const char begin_of_main[] __asm__("main");

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data)
{
	unsigned *count = data;
	uint64_t ip = _Unwind_GetIP(context);
	void *function = ip ? _Unwind_FindEnclosingFunction((void *)ip) : NULL;

	printf(" %lx", function ? (unsigned long)(ip - (uint64_t)function) : 0ul);
	return ++*count < FRAMES_MAX ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

KEPT void walk(const char *where)
{
	unsigned count = 0;

	printf("%s:", where);
	_Unwind_Backtrace(visit, &count);
	printf(", %u frames\n", count);
}

KEPT int deeper(int n, const char *where)
{
	if (n)
		return deeper(n - 1, where) + 1;
	walk(where);
	return 0;
}

static void on_signal(int number)
{
	(void)number;
	deeper(2, "handler");
}

#ifdef __x86_64__
void switch_stacks(void **from, void *to);
__asm__(".pushsection .text\nswitch_stacks:\npush %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop "
	"%rbp\nret\n.popsection\n");

KEPT __attribute__((noreturn)) void body(void)
{
	void *own;

	deeper(3, "coroutine");
	/* Nobody takes it: it comes back, at the stack's end. */
	printf("thrown: %d\n", (int)_Unwind_RaiseException(&exception));
	switch_stacks(&own, main_stack);
	abort();
}

/* Goes on as body(), by a jump, with the stack as it is: the slot of the return address is the stack's last word. */
void first(void);
__asm__(".pushsection .text\n.globl first\n.type first, %function\nfirst:\n.cfi_startproc\nnop; nop; nop; nop; nop; "
	"nop; nop; nop\n"
	"jmp body\n.cfi_endproc\n.size first, . - first\n.popsection\n");

static void run_coroutine(void)
{
	uint64_t *top = (uint64_t *)((char *)aligned_alloc(16, STACK) + STACK);

	*--top = 0; /* the first function's return address */
	*--top = (uint64_t)first;
	top -= 6; /* registers */
	switch_stacks(&main_stack, top);
}
#else
static void run_coroutine(void)
{
}
#endif

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 3; i++)
		deeper(5, "calls");
	raise(SIGUSR1);
	for (int i = 0; i < 2; i++)
		run_coroutine();
	return 0;
}
