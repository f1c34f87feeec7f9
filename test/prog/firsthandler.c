/* A thread whose very first traced call is a handler's on a signal stack: there is nothing to go back to. */
#include <signal.h>

#include "truth.h"

static volatile sig_atomic_t handled;

TRACED static void handler(int signal)
{
	TRUTH();
	handled += signal == SIGUSR1;
}

TRACED static void work(void)
{
	TRUTH();
	handled += 100;
}

UNTRACED int main(void)
{
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

	truth_stack(stack.ss_sp, stack.ss_size);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 2; i++) {
		raise(SIGUSR1);
		work();
	}
	printf("%d\n", (int)handled);
	return 0;
}
