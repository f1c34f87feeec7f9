/*
 * Calls that always nest alike, by a great many: main() -> outer() -> middle() -> leaf(), in two threads, and in one of
 * them with a coroutine that goes on on another stack, with a recursion, and with frames that longjmp() leaves; and all
 * that once more in a forked child.  More than a small buffer holds.  Prints how long the longest calls of two
 * functions were, in ns, by a clock outside of them.
 *
 *     nests ROUNDS
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "truth.h"

enum { CALLS = 300, STACK = 64 * 1024, DEEP = 8 };
enum longest { OUTER, DOWN };

static volatile long sum;
static ucontext_t main_context, other_context;
static char stack[STACK];
static int rounds;
static long *longest; /* of both processes */

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

/* The calls of one recursion are more than a sub-buffer holds: so losses begin and end at any depth of it. */
TRACED static void down(long n)
{
	for (int i = 0; i < CALLS; i++)
		leaf(i);
	if (n)
		down(n - 1);
	for (int i = 0; i < CALLS; i++)
		leaf(i);
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

UNTRACED static void measured(void (*function)(long), enum longest which, long n)
{
	struct timespec before, after;
	long ns;

	clock_gettime(CLOCK_MONOTONIC, &before);
	function(n);
	clock_gettime(CLOCK_MONOTONIC, &after);
	ns = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
	if (ns > longest[which])
		longest[which] = ns;
}

TRACED static void *member(void *unused)
{
	for (int i = 0; i < rounds; i++)
		measured(outer, OUTER, i);
	return unused;
}

TRACED static void both(void)
{
	for (int i = 0; i < rounds; i++) {
		measured(outer, OUTER, i);
		thrown();
		measured(down, DOWN, DEEP);
		swapcontext(&main_context, &other_context);
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;
	pid_t child;

	rounds = argc > 1 ? atoi(argv[1]) : 1;
	longest = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = sizeof(stack);
	makecontext(&other_context, other, 0);
	both();
	child = fork();
	if (!child) {
		both();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	if (pthread_create(&thread, NULL, member, NULL))
		return 1;
	pthread_join(thread, NULL);
	printf("outer %ld\ndown %ld\n", longest[OUTER], longest[DOWN]);
	return 0;
}
