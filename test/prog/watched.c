/*
 * A program to look at while it runs: so many threads that each take so many
 * turns, with a pause after each.  Each turn calls step() five times, every
 * tenth rare() once; doze() is open for the pause.
 *
 *     watched THREADS TURNS PAUSE_US [FILE]
 *
 * The last turn of each thread waits until there is no such file; with 0 TURNS the threads take turns until then.
 */
#include <pthread.h>
#include <signal.h>

#include "truth.h"

#define THREADS_MAX 64

static long turns, pause_us;
static const char *awaited;

TRACED static unsigned step(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

TRACED static unsigned rare(unsigned x)
{
	return step(x) ^ 1u;
}

TRACED static unsigned turn(unsigned x, long number)
{
	for (int i = 0; i < 5; i++)
		x = step(x);
	return number % 10 ? x : rare(x);
}

TRACED static void doze(void)
{
	usleep((useconds_t)pause_us);
}

UNTRACED static int is_awaited(void)
{
	return awaited && !access(awaited, F_OK);
}

TRACED static void *work(void *arg)
{
	unsigned x = (unsigned)(size_t)arg;

	for (long i = 0; turns ? i < turns : is_awaited(); i++) {
		while (i + 1 == turns && is_awaited())
			usleep(1000);
		x = turn(x, i);
		if (pause_us)
			doze();
	}
	return (void *)(size_t)x;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	long count = argc > 1 ? atol(argv[1]) : 1;

	turns = argc > 2 ? atol(argv[2]) : 100;
	pause_us = argc > 3 ? atol(argv[3]) : 1000;
	awaited = argc > 4 ? argv[4] : NULL;
	if (count > THREADS_MAX)
		return 2;
	printf("running %d\n", (int)getpid());
	fflush(stdout);
	for (long i = 1; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(size_t)i))
			return 3;
	work(NULL);
	for (long i = 1; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("done well\n");
	return 0;
}
