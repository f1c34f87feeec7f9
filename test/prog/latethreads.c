/*
 * Threads that end in the midst of their calls, one after the other, by the system call exit().  A second later mark()
 * is called.  Prints "done well".
 */
#include <pthread.h>

#include "truth.h"

enum { THREADS = 20, CALLS = 100 };

TRACED static unsigned work(unsigned x)
{
	ROOM_FOR_JUMP();
	return x * 1664525u + 1013904223u;
}

TRACED static void mark(void)
{
	__asm__ volatile("");
	ROOM_FOR_JUMP();
}

TRACED static void *body(void *arg)
{
	volatile unsigned x = 1;

	for (int i = 0; i < CALLS; i++)
		x = work(x);
	syscall(SYS_exit, 0);
	return arg;
}

int main(void)
{
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, NULL))
			return 1;
	}
	sleep(1);
	mark();
	puts("done well");
	return 0;
}
