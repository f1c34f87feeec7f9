/*
 * Threads that end in the midst of their calls, one after the other, and then the process, before anybody could look
 * which of them live.  Prints how long all that took, in ns.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 40 };

__attribute__((noinline)) void quit(void)
{
	pthread_exit(NULL);
}

__attribute__((noinline)) void *member(void *unused)
{
	quit();
	return unused;
}

int main(void)
{
	struct timespec before, after;
	pthread_t thread;

	clock_gettime(CLOCK_MONOTONIC, &before);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, member, NULL) || pthread_join(thread, NULL))
			return 1;
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf("%ld\n", (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec);
	return 0;
}
