/*
 * A signal's handler interrupts the allocator and waits for events there.  The tool must not send the waiting thread
 * to load anything, for it holds the allocator's lock.  Runs until it is told to stop (SIGTERM).
 *
 * Prints "ready PID" when a thread waits there for the first time, at the end its findings.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>

#include "truth.h"

#define ASK_MS	50
#define HELD_MS 1500

static volatile sig_atomic_t stop, held, free_lock;
static sem_t ask;

TRACED static void hold(void)
{
	if (!held++) {
		char line[32];
		int size = snprintf(line, sizeof(line), "ready %d\n", (int)getpid());

		if (write(1, line, size) != size)
			_exit(1);
	}
	poll(NULL, 0, HELD_MS);
}

/* Let the second thread allocate: if it cannot, this thread holds the allocator's lock. */
UNTRACED static void on_alarm(int number)
{
	const struct itimerval next = {{0, 0}, {0, 1000}};

	free_lock = 0;
	sem_post(&ask);
	for (int i = 0; i < ASK_MS && !free_lock; i++)
		poll(NULL, 0, 1);
	if (!free_lock)
		hold();
	setitimer(ITIMER_REAL, &next, NULL);
}

UNTRACED static void on_end(int number)
{
	stop = 1;
}

TRACED static unsigned allocate(unsigned n)
{
	void *volatile list[16];

	for (int i = 0; i < 16; i++)
		list[i] = malloc(n * 7 % 300 + 1);
	for (int i = 0; i < 16; i++)
		free(list[i]);
	return n + 1;
}

UNTRACED static void *answer(void *arg)
{
	for (;;) {
		void *volatile got;

		while (sem_wait(&ask))
			;
		got = malloc(24);
		free(got);
		free_lock = 1;
	}
	return arg;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	const struct itimerval first = {{0, 0}, {0, 1000}};
	sigset_t all, before;
	pthread_t thread;
	unsigned n = 0;

	sem_init(&ask, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_create(&thread, NULL, answer, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	signal(SIGTERM, on_end);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &first, NULL);
	while (!stop)
		n = allocate(n);
	printf("all was well\n");
	return 42;
}
