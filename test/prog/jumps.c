/* setjmp and longjmp: out of nested calls, out of a signal handler, and thousands in a loop. */
#include <setjmp.h>
#include <signal.h>

#include "truth.h"

static jmp_buf back;
static sigjmp_buf out;

TRACED static void dive(int depth)
{
	TRUTH();
	if (depth == 0)
		longjmp(back, 1);
	dive(depth - 1);
}

TRACED static int catch_dive(int depth)
{
	TRUTH();
	if (setjmp(back)) {
		TRUTH_LANDED();
		return depth;
	}
	dive(depth);
	return -1;
}

TRACED static void handler(int signal)
{
	TRUTH();
	siglongjmp(out, 1);
}

TRACED static void raiser(void)
{
	TRUTH();
	raise(SIGUSR1);
}

TRACED static int catch_signal(void)
{
	TRUTH();
	if (sigsetjmp(out, 1)) {
		TRUTH_LANDED();
		return 1;
	}
	raiser();
	return 0;
}

int main(int argc, char **argv)
{
	TRUTH();
	int total = 0, loops = argc > 1 ? atoi(argv[1]) : 50;

	signal(SIGUSR1, handler);
	for (int i = 0; i < loops; i++)
		total += catch_dive(i % 5) + catch_signal();
	printf("total %d\n", total);
	return 0;
}
