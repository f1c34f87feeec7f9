/*
 * Calls into which a signal handler's calls of the same functions come: a SIGTRAP between any two instructions of a
 * call of outer() and its recorders (steps.h of the CPU).  On x86-64 each of them has its handler in each round;
 * elsewhere a debugger sends one signal a round, and none when it has been everywhere (test/e2e/stepper.py
 * --one-a-round).
 *
 * Prints how often each function was called, and how often the handler ran.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "steps.h"
#include "truth.h"

/* End a function with something that keeps the call in front of it from being a tail call. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

static volatile unsigned long handled; /* runs of the handler */
static volatile int result;

TRACED int leaf(int x)
{
	return x * 3 + 1;
}

TRACED int again(int x)
{
	int sum = x ? again(x - 1) : 1;

	NO_TAIL_CALL();
	return sum + x;
}

TRACED int outer(int x)
{
	int sum = leaf(x) + again(1);

	NO_TAIL_CALL();
	return sum;
}

UNTRACED static void on_trap(int number)
{
	(void)number;
	result += leaf(1) + again(1);
	handled++;
}

int main(void)
{
	const struct sigaction action = {.sa_handler = on_trap};
	unsigned long rounds = 0, before;
	bool more;

	sigaction(SIGTRAP, &action, NULL);
	do {
		before = handled;
		result += outer(1); /* what is done at a first call only, and under a new tick */
		STEPS_BEGIN();
		result += outer(2);
		STEPS_END();
		rounds++;
#ifdef __x86_64__
		more = rounds < STEPS_ROUNDS;
#else
		more = handled > before;
#endif
	} while (more);
	printf("outer %lu\nleaf %lu\nagain %lu\nhandler %lu\n", 2 * rounds, 2 * rounds + handled,
	       2 * (2 * rounds + handled), handled);
	return 0;
}
