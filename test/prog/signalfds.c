/*
 * Many descriptors of signals, in a process and in its child, and calls for a while: an emulator changes what is read
 * from the numbers of such descriptors, and an agent's connection must not get one of them.
 */
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "truth.h"

#define DESCRIPTORS 32
#define STEPS	    150 /* of 2 ms: the tool asks several times for the clock meanwhile */

TRACED static void leaf(void)
{
	TRUTH();
}

TRACED static void call_for_a_while(void)
{
	TRUTH();
	const struct timespec pause = {0, 2000000};

	for (int i = 0; i < STEPS; i++) {
		leaf();
		nanosleep(&pause, NULL);
	}
}

int main(void)
{
	TRUTH();
	sigset_t set;
	pid_t child;
	int status;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 0; i < DESCRIPTORS; i++)
		if (signalfd(-1, &set, 0) < 0)
			return 1;
	call_for_a_while();
	child = fork();
	if (!child) {
		call_for_a_while();
		_exit(0);
	}
	return waitpid(child, &status, 0) != child || status;
}
