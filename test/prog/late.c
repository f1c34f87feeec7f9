/*
 * Calls that are open when a process or a thread begins or ends:
 *
 *     forks     hold() works, calls mark(), and has children that work a little and end
 *     threads   threads end in the midst of body(), one after the other, by the system call exit(); a second later
 * mark() is called
 *
 * Prints "done well".
 */
#include <pthread.h>
#include <sys/wait.h>

#include "truth.h"

enum { CHILDREN = 5, THREADS = 20, MANY = 200000, SOME = 2000, FEW = 100 };

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

UNTRACED static void repeat(int count)
{
	volatile unsigned x = 1;

	for (int i = 0; i < count; i++)
		x = work(x);
}

TRACED static int hold(void)
{
	int good = 0, status;

	repeat(MANY);
	mark();
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid) {
			repeat(SOME);
			_exit(7);
		}
		good += waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7;
	}
	return good == CHILDREN;
}

TRACED static void *body(void *arg)
{
	repeat(FEW);
	syscall(SYS_exit, 0);
	return arg;
}

UNTRACED static int run_threads(void)
{
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, NULL))
			return 0;
	}
	sleep(1);
	mark();
	return 1;
}

int main(int argc, char **argv)
{
	puts((argc > 1 && !strcmp(argv[1], "threads") ? run_threads() : hold()) ? "done well" : "wrong");
	return 0;
}
