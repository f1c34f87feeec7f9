/*
 * Calls a function as often as it can, which is short; from each SIGUSR1 to the next it takes 20 us instead.  Says when
 * it starts, and ends by SIGUSR2.
 */
#include <signal.h>
#include <time.h>

#include "truth.h"

#define LONG_NS 20000

static volatile sig_atomic_t ended, is_long;

UNTRACED static void change(int signal)
{
	is_long = !is_long;
}

UNTRACED static void end_early(int signal)
{
	ended = signal;
}

UNTRACED static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

TRACED static unsigned step(unsigned x)
{
	if (is_long)
		for (long until = now_ns() + LONG_NS; now_ns() < until;)
			;
	return x * 1664525u + 1013904223u;
}

TRACED static unsigned turn(unsigned x)
{
	for (int i = 0; i < 1000 && !ended; i++)
		x = step(x);
	usleep(1000);
	return x;
}

int main(void)
{
	unsigned x = 1;

	signal(SIGUSR1, change);
	signal(SIGUSR2, end_early);
	printf("running %d\n", (int)getpid());
	fflush(stdout);
	while (!ended)
		x = turn(x);
	printf("done %s\n", x ? "well" : "too");
	return 0;
}
