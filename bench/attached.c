/*
 * Runs until it is killed, for the benchmark of attaching: so many threads, of which so many are busy in functions with
 * sites and the others sleep.
 *
 *     attached THREADS BUSY
 *
 * Prints the address of a function with a site when all threads run.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern int function_0(int x);
extern int function_9(int x);

/* Between calls: hardly ever a thread is found in a site, though all are busy. */
#define PAUSE 50000

static int sink;

static void *sleep_on(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *work(void *arg)
{
	for (int i = 0;; i++) {
		__atomic_store_n(&sink, function_0(i) + function_9(i), __ATOMIC_RELAXED);
		for (int k = 0; k < PAUSE; k++)
			__asm__ volatile("");
	}
	return arg;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1, busy = argc > 2 ? atoi(argv[2]) : 0;

	for (int i = 1; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, i < busy ? work : sleep_on, NULL))
			return 1;
	}
	printf("%p\n", (void *)function_9);
	fflush(stdout);
	if (busy)
		work(NULL);
	sleep_on(NULL);
	return 0;
}
