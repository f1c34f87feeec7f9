/*
 * Marks from threads, from a signal handler, within calls and outside of them, too long ones and such as are no text;
 * errno is left alone.  With an argument: it waits for a line of its input first, so that it can be attached to.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <calltap/mark.h>

#define THREADS 3
#define ROUNDS	200

__attribute__((noinline)) static void inner(int thread, int round)
{
	char text[64];

	snprintf(text, sizeof(text), "thread %d round %d", thread, round);
	errno = 77;
	calltap_mark(text);
	if (errno != 77)
		_exit(3);
}

__attribute__((noinline)) static void outer(int thread)
{
	for (int round = 0; round < ROUNDS; round++)
		inner(thread, round);
}

static void *run(void *arg)
{
	outer((int)(long)arg);
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
	calltap_mark("in a handler");
}

__attribute__((noinline)) static void raise_it(void)
{
	raise(SIGUSR1);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	char longest[600], line[16];
	pthread_t threads[THREADS];

	(void)argv;
	if (argc > 1 && !fgets(line, sizeof(line), stdin))
		return 4;
	sigaction(SIGUSR1, &action, NULL);
	calltap_mark("before all");
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 5;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	raise_it();
	/* 254 bytes, and a character of two: the cut comes in its midst. */
	memset(longest, 'x', sizeof(longest));
	memcpy(longest + 254, "\xc3\xa4", 2);
	longest[sizeof(longest) - 1] = 0;
	calltap_mark(longest);
	calltap_mark("esc \033[2J \"quote\" \\ \xff");
	calltap_mark("");
	calltap_mark(NULL);
	calltap_mark("after all");
	puts("marked");
	return 0;
}
