/*
 * Threads that do nothing but call, and are interrupted all the time by a signal whose handler stays for a while: so
 * one of them is in the middle of a recorder for that long, again and again.
 *
 *     interrupted [jumps]
 *
 * "jumps": half of the handlers leave by siglongjmp.  Prints "ready PID"; ends by SIGTERM as attachee.c does.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>

#include "truth.h"

enum { CALLERS = 2, STAYS = 5 };

static int stop; /* atomic */
static int jumps;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t can_jump;
static __thread unsigned count;

TRACED static unsigned leaf(unsigned x)
{
	return x * 2654435761u + 1;
}

TRACED static unsigned middle(unsigned x)
{
	return leaf(x) - leaf(x + 1) + 2654435761u;
}

TRACED static void interrupt(int number)
{
	const struct timespec pause = {0, 30000000};

	(void)number;
	if (count++ % STAYS == 0)
		nanosleep(&pause, NULL);
	if (leaf(1) != 2654435762u)
		_exit(1);
	if (jumps && can_jump && count % 2)
		siglongjmp(back, 1);
}

TRACED static void *call(void *arg)
{
	unsigned x = (unsigned)(unsigned long)arg, rest = 0;

	if (sigsetjmp(back, 1))
		rest = 0;
	can_jump = 1;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		rest |= middle(x++);
		if (rest)
			_exit(1);
	}
	can_jump = 0;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
	const struct timespec pause = {0, 1000000};
	pthread_t threads[CALLERS];
	sigset_t set;
	unsigned turn = 0;

	jumps = argc > 1 && !strcmp(argv[1], "jumps");
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned long i = 0; i < CALLERS; i++)
		if (pthread_create(&threads[i], NULL, call, (void *)i))
			return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (sigtimedwait(&set, NULL, &pause) != SIGTERM)
		pthread_kill(threads[turn++ % CALLERS], SIGUSR1);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < CALLERS; i++)
		pthread_join(threads[i], NULL);
	printf("all was well\n");
	return 42;
}
