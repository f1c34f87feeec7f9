/*
 * Forks a child each time that it is told to (SIGUSR1), which works and ends, until it is told to stop (SIGTERM);
 * prints "ready PID".
 */
#include <signal.h>
#include <sys/wait.h>

#include "truth.h"

TRACED static int childs_work(int n)
{
	return n ? childs_work(n - 1) + n : 0;
}

TRACED static int breed(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(childs_work(6));
	return pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 21;
}

int main(void)
{
	sigset_t set;
	int number, failed = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!failed && !sigwait(&set, &number) && number == SIGUSR1)
		failed = breed();
	printf(failed ? "a child failed\n" : "all was well\n");
	return 42;
}
