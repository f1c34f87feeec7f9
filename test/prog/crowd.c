/*
 * A crowd: many threads at once, all in traced functions at the same time, then others in their place; the arguments
 * say how many in all, how many together, and how many KiB their stacks have.  These lie side by side.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 20 };

static pthread_barrier_t all_here;

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

void *member(void *unused)
{
	long n = 0;

	(void)unused;
	for (int i = 0; i < CALLS; i++)
		n = step(n);
	pthread_barrier_wait(&all_here);
	return (void *)n;
}

int main(int argc, char **argv)
{
	int members = argc > 1 ? atoi(argv[1]) : 1000, together = argc > 2 ? atoi(argv[2]) : 500;
	size_t stack = (argc > 3 ? strtoul(argv[3], NULL, 10) : 64) << 10;
	pthread_t *threads = calloc((size_t)together, sizeof(*threads));
	pthread_attr_t small;
	long total = 0;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, stack);
	pthread_barrier_init(&all_here, NULL, (unsigned)together);
	for (int done = 0; done < members; done += together) {
		for (int i = 0; i < together; i++)
			if (pthread_create(&threads[i], &small, member, NULL))
				return 1;
		for (int i = 0; i < together; i++) {
			void *result;

			pthread_join(threads[i], &result);
			total += (long)result;
		}
	}
	free(threads);
	printf("%d members, %ld steps\n", members, total);
	return 0;
}
