/*
 * A throng: THREADS threads wait, and all call traced functions at once when SIGUSR1 comes.  With each SIGUSR2, LATER
 * more threads are started at once, which call them and stay.  Ends at SIGTERM and tells the number of threads that
 * called; a line of its own tells when all threads of a crowd have called.  "busy": threads go on calling, without
 * end.
 *
 *     throng THREADS [LATER [busy]]
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CALLS = 20, STACK = 64 << 10 };

static sem_t start, called, never;
static int busy;

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

static void *member(void *waits)
{
	long n = 0;

	if (waits)
		while (sem_wait(&start))
			;
	for (int i = 0; i < CALLS; i++)
		n = step(n);
	sem_post(&called);
	while (busy)
		n = step(n);
	while (sem_wait(&never))
		;
	return (void *)n;
}

static void create(int members, void *waits)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (int i = 0; i < members; i++)
		if (pthread_create(&thread, &small, member, waits))
			_exit(1);
	pthread_attr_destroy(&small);
}

int main(int argc, char **argv)
{
	int members = argc > 1 ? atoi(argv[1]) : 100, later = argc > 2 ? atoi(argv[2]) : 0, all = 0, number;
	sigset_t signals;

	busy = argc > 3;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	sem_init(&start, 0, 0);
	sem_init(&called, 0, 0);
	sem_init(&never, 0, 0);
	create(members, &start);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!sigwait(&signals, &number) && number != SIGTERM) {
		int crowd = number == SIGUSR1 ? members : later;

		for (int i = 0; number == SIGUSR1 && i < crowd; i++)
			sem_post(&start);
		if (number == SIGUSR2)
			create(crowd, NULL);
		for (int i = 0; i < crowd; i++)
			while (sem_wait(&called))
				;
		all += crowd;
		printf("%d called\n", crowd);
		fflush(stdout);
	}
	printf("%d members\n", all);
	fflush(stdout);
	_exit(0);
}
