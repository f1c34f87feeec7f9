/*
 * Traces a child that it has forked, as rr does: the child's first stop must be its own SIGSTOP, and no event of a
 * thread that it has not made.  And the child has, as the kernel compares them, what its parent has.
 */
#include <linux/kcmp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "truth.h"

enum { ROUNDS = 20 };

TRACED static int work(int n)
{
	TRUTH();
	return n + 1;
}

/* The child makes no traced call before it is traced. */
UNTRACED static void child(int ready)
{
	char byte;

	if (read(ready, &byte, 1) != 1)
		_exit(90);
	for (int i = 0; i < 100; i++)
		if (work(i) != i + 1)
			_exit(91);
	kill(getpid(), SIGSTOP);
	_exit(7);
}

/* Prints the first stop, later ones, and the exit status. */
TRACED static void trace(void)
{
	TRUTH();
	int pipes[2], first, status;
	pid_t pid;

	if (pipe(pipes))
		exit(1);
	pid = fork();
	if (!pid)
		child(pipes[0]);
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC) ||
	    write(pipes[1], "", 1) != 1 || waitpid(pid, &first, __WALL) != pid)
		exit(2);
	printf("stop by %d, event %d; ", WSTOPSIG(first), first >> 16);
	ptrace(PTRACE_CONT, pid, 0, 0);
	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
		printf("again by %d, event %d; ", WSTOPSIG(status), status >> 16);
		ptrace(PTRACE_CONT, pid, 0, 0);
	}
	printf("exit status %d\n", WEXITSTATUS(status));
	close(pipes[0]);
	close(pipes[1]);
}

TRACED static void compare(void)
{
	TRUTH();
	pid_t pid = fork();

	if (!pid) {
		work(1);
		pause();
	}
	printf("semaphores %ld, io %ld\n", syscall(SYS_kcmp, getpid(), pid, KCMP_SYSVSEM, 0, 0),
	       syscall(SYS_kcmp, getpid(), pid, KCMP_IO, 0, 0));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	for (int i = 0; i < ROUNDS; i++)
		trace();
	compare();
	printf("all was well\n");
	return 42;
}
