/*
 * Forks children that make one call, and kills each at another moment of its first 400 us.  Prints "ready PID", and
 * "all was well" after SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_MAX_US 400
#define STATUS	     42

static volatile sig_atomic_t ends;

static void on_signal(int number)
{
	ends = number;
}

__attribute__((noinline, noclone)) unsigned call(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

int main(void)
{
	const struct sigaction action = {.sa_handler = on_signal};
	volatile unsigned x = 1;

	sigaction(SIGTERM, &action, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (useconds_t pause_us = 0; !ends; pause_us = (pause_us + 1) % PAUSE_MAX_US) {
		pid_t child = fork();

		if (!child) {
			x = call(x);
			pause();
			_exit(1);
		}
		usleep(pause_us);
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0)
			continue;
	}
	puts("all was well");
	return STATUS;
}
