/*
 * Leaves: functions that call nothing and leave the stack alone, whose calls have no frames under `--time adaptive`.
 *
 * leaves calls ROUNDS: recursion around leaves, a tail call into one, and one that takes 5 ms at times.
 * leaves signals ROUNDS: handlers that come in while a leaf runs, and call traced functions and backtrace().
 * leaves jumps ROUNDS: the same, and the handler leaves by siglongjmp, in every other round without a traced call.
 * leaves ends: a fork by a handler within a leaf, whose child returns from there; and a thread that is cancelled in
 * one. leaves loops: two threads that do nothing but run leaves, until SIGTERM comes.
 *
 * Prints how often each function was called.  Build with -O2: without optimization these functions use the stack.
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

#define NEAR 256 /* bytes of a function, at most */

static sigjmp_buf back;
static volatile unsigned handled;
static volatile bool jumps, forks, walks, quiet, over;
static unsigned long plain_calls, spin_calls, handler_calls, around_calls, tail_calls, after_calls;
static pid_t child = -1;
static char walked[64];

TRACED unsigned long plain(unsigned long x)
{
	return x * 3 + 1;
}

/* Runs until the word is another one, or so many times. */
TRACED unsigned long spin(const volatile unsigned *word, unsigned until, unsigned long times)
{
	while (*word != until && --times)
		;
	return times;
}

TRACED unsigned long tail(unsigned long x)
{
	return plain(x + 1);
}

TRACED unsigned long around(unsigned depth, unsigned long x)
{
	x = plain(x);
	plain_calls++;
	around_calls++;
	if (depth)
		x = around(depth - 1, x);
	plain_calls++;
	return plain(x);
}

TRACED unsigned long after(unsigned long x)
{
	after_calls++;
	plain_calls++;
	return plain(x) + 1;
}

static bool is_in(const void *pc, const void *function)
{
	return (uintptr_t)pc - (uintptr_t)function < NEAR;
}

TRACED void run(void);

/* Note which of the two functions backtrace() finds, in the order from the inside out. */
static void walk(void)
{
	void *frames[32];
	int count = backtrace(frames, 32);

	walked[0] = 0;
	for (int i = 0; i < count; i++)
		if (is_in(frames[i], (const void *)spin))
			strcat(walked, "spin ");
		else if (is_in(frames[i], (const void *)run))
			strcat(walked, "run ");
}

TRACED void from_handler(void)
{
	handler_calls++;
	plain_calls++;
	plain(1);
	if (walks)
		walk();
}

static void on_signal(int number)
{
	(void)number;
	if (!quiet)
		from_handler();
	handled++;
	if (forks && child < 0)
		child = fork();
	if (jumps)
		siglongjmp(back, 1);
}

/*
 * The timer counts the time that the thread runs, so the leaf has begun when it rings, however busy the machine is.
 * setitimer(ITIMER_PROF) would not do: the kernel counts its time in whole ticks, and the next tick may come at once.
 */
static void signal_soon(void)
{
	const struct itimerspec soon = {{0, 0}, {0, 2000000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
	static timer_t timer;
	static bool made;

	if (!made && timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer))
		abort();
	made = true;
	timer_settime(timer, 0, &soon, NULL);
}

TRACED void run(void)
{
	unsigned expected = handled + 1;

	spin_calls++;
	if (!sigsetjmp(back, 1)) {
		signal_soon();
		spin(&handled, expected, ~0ul);
	}
	after(2);
}

static void call(unsigned long rounds)
{
	unsigned long x = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		x += around(i % 7, i);
		x += tail(i);
		tail_calls++;
		plain_calls++;
		if (i % 500 == 499) {
			/* 5 ms, more or less */
			spin_calls++;
			x += spin(&handled, ~0u, 10000000);
		}
	}
	printf("sum %lu\n", x);
}

static void *cancelled(void *unused)
{
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	handled = 1;
	spin_calls++;
	spin(&handled, 0, ~0ul);
	return unused;
}

static void meet_ends(void)
{
	pthread_t thread;
	int status = -1;
	void *result;

	forks = true;
	run();
	if (!child) {
		for (int i = 0; i < 10; i++)
			plain(1);
		_exit(7);
	}
	waitpid(child, &status, 0);
	plain_calls += 10 + 1; /* the child's own, with after()'s */
	after_calls++;
	handled = 0;
	pthread_create(&thread, NULL, cancelled, NULL);
	while (!handled)
		usleep(1000);
	usleep(20000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	printf("child %d, cancelled %d\n", WEXITSTATUS(status), result == PTHREAD_CANCELED);
}

static void on_end(int number)
{
	(void)number;
	over = true;
}

static void *loop(void *unused)
{
	while (!over) {
		plain(3);
		spin(&handled, ~0u, 20000);
	}
	return unused;
}

static void run_loops(void)
{
	pthread_t thread;

	signal(SIGTERM, on_end);
	pthread_create(&thread, NULL, loop, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	loop(NULL);
	pthread_join(thread, NULL);
	printf("done\n");
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	const char *what = argc > 1 ? argv[1] : "";

	sigaction(SIGPROF, &action, NULL);
	if (!strcmp(what, "loops")) {
		run_loops();
		return 0;
	}
	if (!strcmp(what, "calls"))
		call(rounds);
	jumps = !strcmp(what, "jumps");
	walks = !strcmp(what, "signals");
	for (unsigned long i = 0; (jumps || walks) && i < rounds; i++) {
		quiet = jumps && i % 2;
		run();
		if (walks && !strstr(walked, "spin run "))
			printf("backtrace: %s\n", walked);
	}
	if (!strcmp(what, "ends"))
		meet_ends();
	printf("plain %lu\nspin %lu\nfrom_handler %lu\naround %lu\ntail %lu\nafter %lu\n", plain_calls, spin_calls,
	       handler_calls, around_calls, tail_calls, after_calls);
	return 0;
}
