/*
 * Calls that always nest alike, by a great many: main() -> outer() -> middle() -> leaf(), in two threads, and in one of
 * them with a coroutine that goes on on another stack, and with frames that longjmp() leaves.  More than a small buffer
 * holds.
 *
 *     nests ROUNDS
 */
#include <pthread.h>
#include <setjmp.h>
#include <ucontext.h>

#include "truth.h"

enum { CALLS = 300, STACK = 64 * 1024 };

static volatile long sum;
static ucontext_t main_context, other_context;
static char stack[STACK];
static int rounds;

TRACED static void leaf(long n)
{
	sum += n;
	ROOM_FOR_JUMP();
}

TRACED static void middle(long n)
{
	for (int i = 0; i < CALLS; i++)
		leaf(n + i);
}

TRACED static void outer(long n)
{
	for (int i = 0; i < CALLS / 10; i++)
		middle(n);
}

TRACED static void jumps(jmp_buf *back)
{
	leaf(1);
	longjmp(*back, 1);
}

TRACED static void thrown(void)
{
	jmp_buf back;

	if (!setjmp(back))
		jumps(&back);
	leaf(2);
}

TRACED static void other(void)
{
	for (;;) {
		middle(3);
		swapcontext(&other_context, &main_context);
	}
}

TRACED static void *member(void *unused)
{
	for (int i = 0; i < rounds; i++)
		outer(i);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	rounds = argc > 1 ? atoi(argv[1]) : 1;
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = sizeof(stack);
	makecontext(&other_context, other, 0);
	if (pthread_create(&thread, NULL, member, NULL))
		return 1;
	for (int i = 0; i < rounds; i++) {
		outer(i);
		thrown();
		swapcontext(&main_context, &other_context);
	}
	return pthread_join(thread, NULL) != 0;
}
