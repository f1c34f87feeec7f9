/*
 * Sends signals to its own process group, three times by itself and once by a child, and counts how often it gets each.
 * Prints the counts; its exit status is 7.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "truth.h"

static volatile sig_atomic_t got[65];

static void on_signal(int number)
{
	got[number]++;
}

TRACED static void send_to_group(int number)
{
	kill(0, number);
}

UNTRACED int main(void)
{
	static const int numbers[] = {SIGHUP,  SIGINT,	  SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE,	SIGALRM,
				      SIGTERM, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGSTKFLT, SIGXFSZ};
	const struct timespec pause = {0, 20000000};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
	sigaction(SIGRTMIN + 3, &action, NULL);
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			send_to_group(numbers[i]);
		send_to_group(SIGRTMIN + 3);
		nanosleep(&pause, NULL);
	}
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		pid_t child = fork();

		if (!child) {
			for (int number = 1; number < 65; number++)
				signal(number, SIG_IGN);
			send_to_group(numbers[i]);
			nanosleep(&pause, NULL);
			_exit(0);
		}
		while (waitpid(child, NULL, 0) < 0)
			;
	}
	nanosleep(&pause, NULL);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		printf("%d: %d\n", numbers[i], (int)got[numbers[i]]);
	printf("real time: %d\n", (int)got[SIGRTMIN + 3]);
	return 7;
}
