/*
 * A vfork child that runs traced code on its parent's stack and thread block: the first traced call of all is its own,
 * the parent's follow, and with `-l step` nothing else is traced.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 40 };

__attribute__((noinline)) int step(int n)
{
	__asm__ volatile("");
	return n + 1;
}

__attribute__((noinline)) void child(void)
{
	step(1);
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

int main(void)
{
	int sum = 0, status;

	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = vfork();

		if (!pid)
			child();
		waitpid(pid, &status, 0);
		sum += step(i) + WEXITSTATUS(status);
	}
	printf("%d\n", sum);
	return 0;
}
