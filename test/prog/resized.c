/*
 * Four threads call three functions in turn until SIGTERM, and say how often:
 * for a recording whose buffers change their size meanwhile.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS 4
#define BURST	30

static bool stopping;
static volatile unsigned long sink;

__attribute__((noinline)) void first(unsigned long i)
{
	sink = i;
}

__attribute__((noinline)) void second(unsigned long i)
{
	sink = i;
}

__attribute__((noinline)) void third(unsigned long i)
{
	sink = i;
}

static void *work(void *arg)
{
	unsigned long *turns = arg;

	while (!__atomic_load_n(&stopping, __ATOMIC_RELAXED)) {
		for (int i = 0; i < BURST; i++) {
			first(*turns);
			second(*turns);
			third(*turns);
			++*turns;
		}
		usleep(1000);
	}
	return NULL;
}

int main(void)
{
	unsigned long turns[THREADS] = {0};
	pthread_t threads[THREADS];
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &turns[i]))
			return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	sigwait(&set, &got);
	__atomic_store_n(&stopping, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		printf("turns %lu\n", turns[i]);
	}
	return 0;
}
