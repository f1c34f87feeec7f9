/*
 * Makes calls at a pace until it is killed, for the benchmark of readers: so many calls of a tiny function in each
 * millisecond.
 *
 *     paced CALLS
 *
 * The program makes up for milliseconds that it was late for, so the mean pace is kept beside others on the machine.
 */
#include <stdlib.h>
#include <time.h>

#define STEP_NS	  1000000
#define SECOND_NS 1000000000

__attribute__((noinline)) int leaf(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000;
	struct timespec next;
	int x = 0;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		for (long i = 0; i < calls; i++)
			x = leaf(x);
		next.tv_nsec += STEP_NS;
		if (next.tv_nsec >= SECOND_NS) {
			next.tv_nsec -= SECOND_NS;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}
