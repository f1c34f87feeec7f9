/*
 * Forks in the midst of a call that has lasted for a while: hold() works, calls mark(), and has children that work a
 * little and end.  Prints "done well".
 */
#include <sys/wait.h>

#include "truth.h"

enum { CHILDREN = 5, CALLS = 200000 };

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

TRACED static int hold(void)
{
	volatile unsigned x = 1;
	int good = 0, status;

	for (int i = 0; i < CALLS; i++)
		x = work(x);
	mark();
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid) {
			for (int k = 0; k < CALLS / 100; k++)
				x = work(x);
			_exit(7);
		}
		good += waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7;
	}
	return good;
}

int main(void)
{
	puts(hold() == CHILDREN ? "done well" : "wrong");
	return 0;
}
