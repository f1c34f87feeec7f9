/*
 * A handler that goes back to a function's entry by its context's program counter, as handlers do that make an
 * exception or a way out of a fault.  No call has left a return address there: the word is the interrupted function's
 * own.
 */
#include <setjmp.h>
#include <signal.h>

#include "truth.h"

#include "cpu.h"

enum { WORDS = 16, ROUNDS = 100 };

static sigjmp_buf out;
static volatile int *volatile nowhere;

TRACED static void leave(void)
{
	siglongjmp(out, 1);
}

UNTRACED static void go_out(int signal, siginfo_t *info, void *context)
{
	CPU_CONTEXT_PC(context) = (unsigned long)leave;
}

TRACED static long sum(const volatile long *words)
{
	long total = 0;

	for (int i = 0; i < WORDS; i++)
		total += words[i];
	return total;
}

/* The signal comes where its own words are next to the stack pointer. */
TRACED static long victim(void)
{
	volatile long words[WORDS];

	for (int i = 0; i < WORDS; i++)
		words[i] = i;
	if (!sigsetjmp(out, 1))
		*nowhere = 1;
	return sum(words);
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = go_out, .sa_flags = SA_SIGINFO};
	int wrong = 0;

	sigaction(SIGSEGV, &action, NULL);
	for (int i = 0; i < ROUNDS; i++)
		wrong += victim() != WORDS * (WORDS - 1) / 2;
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
