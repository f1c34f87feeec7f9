/*
 * A deep stack, at whose end calls come and go until the records of the deep calls' entries are overwritten in a small
 * ring: opened WAY ROUNDS.
 *
 *     calls        plain ones
 *     throws       caught one call farther out
 *     jumps        longjmp over two calls
 *     signals      plain ones, and a handler that makes calls, too, each 100 us or so
 *     altstack     as "signals", with the handler on a signal stack
 *     contexts     each round on another stack and back
 *     recursion    plain ones, on a stack of 200 calls
 *
 * Each call of the deep stack is told on standard output: "open NAME BEFORE INSIDE", by CLOCK_MONOTONIC in ns, before
 * its caller called it and when it ran.  Then come the rounds, and "closing".
 */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <ucontext.h>

#include "truth.h"

enum { STACK_SIZE = 1 << 16, EVERY_US = 100, FEW = 4, MANY = 200 };

static volatile long sum;
static long rounds;
static sigjmp_buf back;
static ucontext_t here, there;
static long before;
static char stacks[2][STACK_SIZE];

UNTRACED static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

UNTRACED static void tell(const char *name)
{
	printf("open %s %ld %ld\n", name, before, now_ns());
	before = now_ns();
}

TRACED static void leaf(void)
{
	sum = sum + 1;
}

TRACED static void two(void)
{
	leaf();
	leaf();
	sum = sum + 1;
}

TRACED static void thrower(long i)
{
	leaf();
	if (i % 2)
		throw i;
	sum = sum + 1;
}

TRACED static void catcher(long i)
{
	try {
		thrower(i);
	} catch (long caught) {
		sum = sum + caught;
	}
	two();
	sum = sum + 1;
}

TRACED static void jumper(long i)
{
	leaf();
	if (i % 2)
		siglongjmp(back, 1);
	sum = sum + 1;
}

TRACED static void jumps(long i)
{
	jumper(i);
	sum = sum + 1;
}

TRACED static void lands(long i)
{
	if (!sigsetjmp(back, 0))
		jumps(i);
	two();
	sum = sum + 1;
}

TRACED static void other_stack(void)
{
	for (;;) {
		two();
		swapcontext(&there, &here);
	}
}

TRACED static void on_signal(int)
{
	two();
	sum = sum + 1;
}

UNTRACED static void begin_signals(int flags)
{
	const struct itimerspec every = {{0, EVERY_US * 1000}, {0, EVERY_US * 1000}};
	const stack_t stack = {.ss_sp = stacks[0], .ss_flags = 0, .ss_size = STACK_SIZE};
	struct sigaction action = {};
	struct sigevent event = {};
	timer_t timer;

	sigaltstack(&stack, NULL);
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART | flags;
	sigaction(SIGUSR1, &action, NULL);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGUSR1;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &every, NULL);
}

UNTRACED static void begin_contexts(void)
{
	getcontext(&there);
	there.uc_stack.ss_sp = stacks[1];
	there.uc_stack.ss_size = STACK_SIZE;
	makecontext(&there, other_stack, 0);
}

UNTRACED static void each(const char *way, long i)
{
	if (!strcmp(way, "throws"))
		catcher(i);
	else if (!strcmp(way, "jumps"))
		lands(i);
	else if (!strcmp(way, "contexts"))
		swapcontext(&here, &there);
	else
		two();
}

TRACED static void works(const char *way)
{
	tell("works");
	fflush(stdout);
	if (!strcmp(way, "signals") || !strcmp(way, "altstack"))
		begin_signals(*way == 'a' ? SA_ONSTACK : 0);
	if (!strcmp(way, "contexts"))
		begin_contexts();
	for (long i = 0; i < rounds; i++)
		each(way, i);
	signal(SIGUSR1, SIG_IGN);
	printf("closing\n");
	sum = sum + 1;
}

TRACED static long again(const char *way, int depth)
{
	tell("again");
	if (depth)
		sum = sum + again(way, depth - 1);
	else
		works(way);
	return sum;
}

TRACED static void serves(const char *way)
{
	tell("serves");
	again(way, (!strcmp(way, "recursion") ? MANY : FEW) - 1);
	sum = sum + 1;
}

int main(int argc, char **argv)
{
	before = now_ns();
	if (argc != 3)
		return 2;
	rounds = atol(argv[2]);
	before = now_ns();
	serves(argv[1]);
	sum = sum + 1;
	return 0;
}
