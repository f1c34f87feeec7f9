/*
 * A stack in pieces (gcc -fsplit-stack): recursion far deeper than the thread's stack holds; the pieces are mapped as
 * they are needed, and returns cross back.  Nothing is logged on them: libc does not ask for more stack, and a linker
 * that would ask for it finds its own pattern only in functions without a site.
 */
#include <pthread.h>

#include "truth.h"

enum { DEPTH = 60, FRAME = 4096 };

TRACED static long leaf(long x)
{
	return x + 1;
}

TRACED static long descend(long depth)
{
	volatile char frame[FRAME];

	frame[depth] = (char)depth;
	return leaf(depth ? descend(depth - 1) : 0) + frame[depth];
}

TRACED static void *run(void *argument)
{
	long total = 0;

	for (int i = 0; i < 3; i++)
		total += descend(DEPTH - i);
	*(long *)argument = total;
	return NULL;
}

int main(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	long total;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	if (pthread_create(&thread, &attributes, run, &total))
		return 1;
	pthread_join(thread, NULL);
	printf("descended %ld\n", total);
	return 0;
}
