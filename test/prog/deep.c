/*
 * Stacks of known depths: for each number on standard input, so many calls deep in each other, below one with a frame
 * of 10,000 bytes; where a variable of each
 * of them lies is printed, outermost first.  Of a negative number: in a thread of its own.  Between two frames lies
 * what the compiler makes of them, so the differences are the frames' sizes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long places[1000];
static int wanted;

__attribute__((noinline)) int descend(int depth)
{
	volatile char here[48];
	int below = 0;

	here[0] = (char)depth;
	places[depth] = (unsigned long)here;
	if (depth + 1 < wanted)
		below = descend(depth + 1);
	return below + here[0];
}

__attribute__((noinline)) void shallow(void)
{
	__asm__ volatile("");
}

/* A function whose frame is larger than those of all others. */
__attribute__((noinline)) void wide(void)
{
	volatile char here[10000];

	here[0] = 1;
	descend(0);
	here[1] = here[0];
}

__attribute__((noinline)) void *begin(void *unused)
{
	(void)unused;
	shallow();
	wide();
	return NULL;
}

int main(void)
{
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		pthread_t thread;

		wanted = abs(atoi(line));
		if (atoi(line) < 0) {
			pthread_create(&thread, NULL, begin, NULL);
			pthread_join(thread, NULL);
		} else {
			begin(NULL);
		}
		for (int i = 0; i < wanted; i++)
			printf("%lx%c", places[i], i + 1 < wanted ? ' ' : '\n');
	}
	return 0;
}
