/*
 * Many short threads, some at a time, each with a name of its own and a little call tree; the argument says how many.
 */
#include <pthread.h>

#include "truth.h"

enum { TOGETHER = 16 };

TRACED static long count(long n)
{
	TRUTH();
	return n ? count(n - 1) + 1 : 0;
}

TRACED static void *work(void *argument)
{
	TRUTH();
	long number = (long)argument;
	char name[16];

	snprintf(name, sizeof(name), "worker-%ld", number);
	pthread_setname_np(pthread_self(), name);
	return (void *)count(number % 5);
}

int main(int argc, char **argv)
{
	TRUTH();
	long threads = argc > 1 ? atol(argv[1]) : 200, total = 0;
	pthread_t running[TOGETHER];

	for (long first = 0; first < threads; first += TOGETHER) {
		long batch = threads - first < TOGETHER ? threads - first : TOGETHER;

		for (long i = 0; i < batch; i++)
			if (pthread_create(&running[i], NULL, work, (void *)(first + i)))
				return 1;
		for (long i = 0; i < batch; i++) {
			void *result;

			pthread_join(running[i], &result);
			total += (long)result;
		}
	}
	printf("%ld threads, total %ld\n", threads, total);
	return 0;
}
