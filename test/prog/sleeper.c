/* Does a little, says so, and sleeps until it is told to stop. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define STATUS 42

static volatile int sink;

__attribute__((noinline)) static void leaf(int i)
{
	sink += i;
}

int main(void)
{
	sigset_t stop;
	int signal;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	for (int i = 0; i < 10; i++)
		leaf(i);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (sigwait(&stop, &signal))
		;
	leaf(1);
	printf("all was well\n");
	return STATUS;
}
