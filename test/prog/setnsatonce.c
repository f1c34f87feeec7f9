/* Threads that all go to the network namespace they are in: our control thread steps aside for one at a time. */
#include <pthread.h>
#include <sched.h>

#include "truth.h"

enum { THREADS = 8, TIMES = 100 };

TRACED static int go(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), failed = setns(fd, 0);

	close(fd);
	return failed;
}

TRACED static void *run(void *unused)
{
	long failed = 0;

	for (int i = 0; i < TIMES; i++)
		failed += go();
	return (void *)failed;
}

int main(void)
{
	pthread_t threads[THREADS];
	long failed = 0;
	void *result;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		failed += (long)result;
	}
	printf("failed %ld\n", failed);
	return 0;
}
