/*
 * Calls a function until it gets SIGUSR1, and executes the command of its
 * arguments then.
 */
#include <signal.h>

#include "truth.h"

static volatile sig_atomic_t told;

UNTRACED static void on_signal(int number)
{
	(void)number;
	told = 1;
}

TRACED static void step(void)
{
	usleep(1000);
}

int main(int argc, char **argv)
{
	signal(SIGUSR1, on_signal);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!told)
		step();
	execvp(argv[1], argv + 1);
	return 1;
}
