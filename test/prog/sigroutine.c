/*
 * A coroutine whose stack is begun by a signal handler on it, which sets a place to jump to and returns: how portable
 * thread libraries make stacks without makecontext (R. Engelschall, "Portable Multithreading", 2000).
 */
#include <setjmp.h>
#include <signal.h>

#include "truth.h"

enum { SIZE = 64 * 1024 };

static jmp_buf self, home;
static char memory[SIZE];
static volatile int total;
static volatile sig_atomic_t done;

TRACED static void leaf(int x)
{
	TRUTH();
	total += x;
}

TRACED static void pause_at(int depth)
{
	TRUTH();
	if (depth)
		pause_at(depth - 1);
	else if (!_setjmp(self))
		_longjmp(home, 1);
	leaf(1);
}

TRACED static void body(void)
{
	TRUTH();
	for (int i = 0; i < 4; i++)
		pause_at(i);
}

UNTRACED static void begin(int signal)
{
	if (!_setjmp(self))
		return;
	body();
	done = 1;
	_longjmp(home, 1);
}

TRACED static void resume(void)
{
	TRUTH();
	if (!_setjmp(home))
		_longjmp(self, 1);
	leaf(10);
}

int main(void)
{
	TRUTH();
	stack_t stack = {.ss_sp = memory, .ss_size = SIZE}, none = {.ss_flags = SS_DISABLE};
	struct sigaction action = {.sa_handler = begin, .sa_flags = SA_ONSTACK};

	truth_stack(memory, SIZE);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	sigaltstack(&none, NULL);
	while (!done)
		resume();
	printf("total %d\n", total);
	return 0;
}
