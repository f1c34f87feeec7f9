/*
 * Handlers under trace: raised in known places (the truth says where), nested, on another stack; and with the argument
 * "storm" by a timer at any instruction, where only the number of calls is known.
 */
#include <signal.h>
#include <sys/time.h>

#include "truth.h"

static volatile sig_atomic_t handled;

TRACED static void noted(void)
{
	TRUTH();
	handled++;
}

TRACED static void inner_handler(int signal)
{
	TRUTH();
	noted();
}

TRACED static void outer_handler(int signal)
{
	TRUTH();
	noted();
	raise(SIGUSR2);
}

TRACED static void tick(int signal)
{
	handled++;
}

TRACED static int busy(int n)
{
	return n ? busy(n - 1) + 1 : 0;
}

TRACED static void handle(int signal, void (*handler)(int), int flags)
{
	TRUTH();
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(signal, &action, NULL);
}

TRACED static void raised(void)
{
	TRUTH();
	static char other[65536];
	stack_t stack;

	memset(&stack, 0, sizeof(stack));
	stack.ss_sp = other;
	stack.ss_size = sizeof(other);
	sigaltstack(&stack, NULL);
	handle(SIGUSR1, outer_handler, 0);
	handle(SIGUSR2, inner_handler, SA_ONSTACK);
	for (int i = 0; i < 3; i++)
		raise(SIGUSR1);
	raise(SIGUSR2);
}

/* Runs until 500 ticks came, so that the time it takes does not change what it prints. */
TRACED static void storm(void)
{
	TRUTH();
	struct itimerval timer = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};

	handle(SIGALRM, tick, SA_RESTART);
	setitimer(ITIMER_REAL, &timer, NULL);
	while (handled < 500)
		busy(30);
	setitimer(ITIMER_REAL, &off, NULL);
	fprintf(stderr, "ticks %d\n", (int)handled);
}

int main(int argc, char **argv)
{
	TRUTH();
	if (argc > 1)
		storm();
	else
		raised();
	printf("handled %s\n", argc > 1 ? "a storm" : handled == 7 ? "seven" : "a wrong number");
	return 0;
}
