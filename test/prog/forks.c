/*
 * Process trees: fork with work on both sides, exec of itself, vfork and posix_spawn of another program, and a child
 * that dies by a signal.  With the argument "child" the program is the one that is executed.
 */
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "truth.h"

extern char **environ;

TRACED static int work(int n)
{
	TRUTH();
	return n ? work(n - 1) + n : 0;
}

TRACED static int status_of(pid_t pid)
{
	TRUTH();
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

TRACED static pid_t forked(void)
{
	TRUTH();
	pid_t pid = fork();

	if (pid == 0)
		work(3);
	return pid;
}

TRACED static int fork_and_work(void)
{
	TRUTH();
	pid_t pid = forked();

	if (pid == 0) {
		work(2);
		_exit(7);
	}
	work(1);
	return status_of(pid);
}

TRACED static int fork_and_exec(char *self)
{
	TRUTH();
	pid_t pid = fork();

	if (pid == 0) {
		work(1);
		execl(self, self, "child", (char *)NULL);
		_exit(98);
	}
	return status_of(pid);
}

TRACED static int fork_and_die(void)
{
	TRUTH();
	pid_t pid = fork();

	if (pid == 0) {
		work(1);
		kill(getpid(), SIGKILL);
	}
	return status_of(pid);
}

TRACED static int vfork_and_exec(void)
{
	TRUTH();
	pid_t pid = vfork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
		_exit(98);
	}
	return status_of(pid);
}

TRACED static int spawn(void)
{
	TRUTH();
	char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)"exit 6", NULL};
	pid_t pid;

	if (posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ))
		return -1;
	return status_of(pid);
}

int main(int argc, char **argv)
{
	TRUTH();
	if (argc > 1 && !strcmp(argv[1], "child")) {
		printf("child %d\n", work(4));
		return 9;
	}
	printf("fork %d\n", fork_and_work());
	fflush(stdout);
	printf("exec %d\n", fork_and_exec(argv[0]));
	printf("die %d\n", fork_and_die());
	for (int i = 0; i < 3; i++)
		printf("vfork %d spawn %d\n", vfork_and_exec(), spawn());
	return 0;
}
