/*
 * Threads that come and go, one after the other: each calls step() so many times, and is waited for.  Waits for SIGUSR1
 * before the first one, and for SIGTERM after the last one; tells the number of calls.
 *
 *     passing THREADS CALLS
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

static void *call(void *calls)
{
	long n = 0;

	while (n < (long)calls)
		n = step(n);
	return (void *)n;
}

static void await(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigwait(&set, &number);
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? strtol(argv[1], NULL, 10) : 1, calls = argc > 2 ? strtol(argv[2], NULL, 10) : 1,
	     made = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	await(SIGUSR1);
	for (long i = 0; i < threads; i++) {
		pthread_t thread;
		void *result;

		if (pthread_create(&thread, NULL, call, (void *)calls) || pthread_join(thread, &result))
			return 1;
		made += (long)result;
	}
	printf("called %ld\n", made);
	fflush(stdout);
	await(SIGTERM);
	return 0;
}
