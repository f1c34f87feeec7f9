/*
 * Forks children until its input ends, four at a time; each makes some calls and ends.  Prints "ready PID" at first,
 * and how many children have not ended well at last.
 */
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_A_TIME 4
#define CALLS	  20000

static __attribute__((noinline, noclone)) unsigned call(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

static __attribute__((noinline, noclone)) int work(void)
{
	unsigned x = 1;

	for (int i = 0; i < CALLS; i++)
		x = call(x);
	return x == 0;
}

int main(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	int unwell = 0, status;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!poll(&input, 1, 0)) {
		for (int i = 0; i < AT_A_TIME; i++) {
			pid_t child = fork();

			if (!child)
				_exit(work());
			unwell += child < 0;
		}
		while (wait(&status) > 0)
			unwell += status != 0;
	}
	printf("unwell %d\n", unwell);
	return 0;
}
