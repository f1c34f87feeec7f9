/*
 * Children by clone() whose function returns: glibc ends their only thread by the system call exit(), and the status is
 * that of the thread that ends last.  "net": each child is in a network namespace of its own, "files": it may open no
 * file; nobody reaches a tool from there.  Prints each status.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "truth.h"

enum { CHILDREN = 40, SIZE = 1 << 18, STATUS = 18 };

TRACED static int call(int x)
{
	ROOM_FOR_JUMP();
	return x + 1;
}

/* Some end in the next moment, others later. */
static int child(void *arg)
{
	volatile int x = 0;

	for (long i = 0; i < *(long *)arg; i++)
		x = call(x);
	return STATUS;
}

int main(int argc, char **argv)
{
	const struct rlimit none = {3, 3};
	int flags = argc > 1 && !strcmp(argv[1], "net") ? CLONE_NEWNET : 0;
	char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || (argc > 1 && !strcmp(argv[1], "files") && setrlimit(RLIMIT_NOFILE, &none)))
		return 1;
	for (int i = 0; i < CHILDREN; i++) {
		long calls = 1 + i * i * 10;
		int status = 0;
		pid_t pid = clone(child, stack + SIZE, flags | SIGCHLD, &calls);

		if (pid < 0)
			return 77;
		waitpid(pid, &status, __WALL);
		printf("%x ", status);
	}
	printf("\n");
	return 0;
}
