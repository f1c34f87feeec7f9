/*
 * A thread that changes the group id, to the same value, all the time: libc has all other threads do it, too, and
 * waits for each of them.  The others wait for events.  Runs until it is told to stop (SIGTERM); then it prints its
 * findings.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "truth.h"

#define THREADS 3

static volatile sig_atomic_t stop;

UNTRACED static void on_end(int number)
{
	stop = 1;
}

TRACED static int change(void)
{
	return setgid(getgid());
}

UNTRACED static void *wait_often(void *arg)
{
	while (!stop)
		poll(NULL, 0, 1);
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];

	signal(SIGTERM, on_end);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, wait_often, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!stop)
		if (change())
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("all was well\n");
	return 42;
}
