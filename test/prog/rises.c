/*
 * Calls that come and go below others that stay, for attaches at any moment: main() is in loop(), that in work(), that
 * in step(), and so in a thread; each of them returns to its caller and is called again, but loop(). Prints "ready
 * PID"; SIGTERM ends it, by "all was well" and the status 42.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "truth.h"

static volatile sig_atomic_t stop;
static volatile int none; /* added to what a callee has returned: so none is called in place of a return */

UNTRACED static void told(int number)
{
	(void)number;
	stop = 1;
}

UNTRACED static void nap(void)
{
	const struct timespec some = {0, 3000000};

	nanosleep(&some, NULL);
}

TRACED static int leaf(int x)
{
	nap();
	return x + 1;
}

TRACED static int step(int x)
{
	return leaf(leaf(x)) - 2;
}

TRACED static int work(int x)
{
	for (int i = 0; i < 3; i++)
		x = step(x);
	return x + none;
}

TRACED static int loop(int x)
{
	while (!stop)
		x = work(x);
	return x + none;
}

TRACED static void *run(void *x)
{
	return (void *)(long)loop((int)(long)x);
}

int main(void)
{
	pthread_t thread;
	void *result;
	int own;

	signal(SIGTERM, told);
	if (pthread_create(&thread, NULL, run, (void *)7))
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	own = loop(5);
	pthread_join(thread, &result);
	if (own != 5 || result != (void *)7)
		return 1;
	printf("all was well\n");
	return 42;
}
