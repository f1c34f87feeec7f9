/*
 * Has its work done by children, and only waits for them itself.
 *
 *     master forks COUNT	children that were forked, until it is told to stop (SIGTERM); prints "ready PID"
 *     master spawns COUNT	children that run this program anew, with an environment of their own that speaks to the
 *				loader, for 0.3 s
 *     master hands COUNT	the same, with its own environment
 *     master works		what those do
 */
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include "truth.h"

extern char **environ;

TRACED static unsigned turn(unsigned x)
{
	return x * 2654435761u + 1;
}

TRACED static unsigned work(unsigned x, unsigned turns)
{
	for (unsigned i = 0; i < turns; i++)
		x = turn(x);
	return x;
}

UNTRACED static void work_for(double seconds)
{
	struct timespec began, now;
	unsigned x = 0;

	clock_gettime(CLOCK_MONOTONIC, &began);
	do {
		x = work(x, 1000);
		usleep(100);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9 < seconds);
	_exit(x == 0);
}

int main(int argc, char **argv)
{
	static char *own[] = {"LD_BIND_NOW=1", NULL}, *works[] = {"master", "works", NULL};
	int count = argc > 2 ? atoi(argv[2]) : 0, number;
	pid_t children[16], child;
	char self[4096] = "";
	sigset_t set;

	if (argc > 1 && !strcmp(argv[1], "works"))
		work_for(0.3);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < count && i < 16; i++)
		if (strcmp(argv[1], "forks")) {
			if (posix_spawn(&child, self, NULL, NULL, works, strcmp(argv[1], "hands") ? own : environ))
				return 1;
		} else if (!(children[i] = fork())) {
			work_for(1000);
		}
	if (argc > 1 && !strcmp(argv[1], "forks")) {
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		sigwait(&set, &number);
		for (int i = 0; i < count; i++)
			kill(children[i], SIGKILL);
	}
	while (wait(NULL) > 0)
		;
	printf("all was well\n");
	return 42;
}
