/*
 * Enters a user namespace of its own, for which the process must have no other thread, and works on for some seconds.
 * Prints "alone PID", 0 where the kernel does not allow it.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 3000, CALLS = 1000 };

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

int main(void)
{
	const struct timespec pause = {0, 1000000};
	long n = step(0);

	printf("alone %d\n", unshare(CLONE_NEWUSER) ? 0 : (int)getpid());
	fflush(stdout);
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < CALLS; k++)
			n = step(n);
		nanosleep(&pause, NULL);
	}
	puts(n == 1 + (long)ROUNDS * CALLS ? "done well" : "wrong");
	return 0;
}
