/*
 * The initial thread ends with pthread_exit() when SIGUSR1 comes, or as soon as it sees the agent ("early"), and the
 * process runs on: the kernel then shows its memory under other threads' numbers only.  Until the program is told to
 * stop (SIGTERM).
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "truth.h"

static volatile sig_atomic_t stop;

UNTRACED static void on_end(int number)
{
	stop = 1;
}

TRACED static long leaf(long x)
{
	return x + 1;
}

UNTRACED static void *work(void *arg)
{
	for (long i = 0; !stop; i++) {
		if (leaf(i) != i + 1)
			_exit(1);
		if (i % 100 == 0)
			poll(NULL, 0, 1);
	}
	printf("all was well\n");
	exit(42);
}

UNTRACED static int sees_agent(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int sees = 0;

	while (maps && !sees && fgets(line, sizeof(line), maps))
		sees = strstr(line, "calltap-agent") != NULL;
	if (maps)
		fclose(maps);
	return sees;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGTERM, on_end);
	if (pthread_create(&thread, NULL, work, NULL))
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (argc > 1)
		while (!sees_agent())
			;
	else
		sigwait(&set, &number);
	pthread_exit(NULL);
}
