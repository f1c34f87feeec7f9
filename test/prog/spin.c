/*
 * Calls a function for as many milliseconds as the argument says, or until SIGUSR2 comes; says when it starts and when
 * it is done.  A pause after each thousand calls keeps the trace small.
 */
#include <signal.h>
#include <time.h>

#include "truth.h"

TRACED static unsigned step(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

static volatile sig_atomic_t ended;

UNTRACED static void end_early(int signal)
{
	ended = signal;
}

UNTRACED static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TRACED static unsigned turn(unsigned x)
{
	for (int i = 0; i < 1000; i++)
		x = step(x);
	usleep(1000);
	return x;
}

int main(int argc, char **argv)
{
	long end = now_ms() + (argc > 1 ? atol(argv[1]) : 1000);
	unsigned x = 1;

	signal(SIGUSR2, end_early);
	printf("running %d\n", (int)getpid());
	fflush(stdout);
	while (!ended && now_ms() < end)
		x = turn(x);
	printf("done %s\n", x ? "well" : "too");
	return 0;
}
