/*
 * A program that steps itself: with the CPU's trap flag set it gets a SIGTRAP behind each instruction, also behind
 * those of a tracer's.  If that comes while SIGTRAP is blocked, the kernel ends the program.  Its handler calls a
 * traced function now and then.  (Only where a program can set such a flag: x86-64.)
 *
 *     stepping CALLS    so many calls from the main thread, from one that begins so, and from both sides of a fork
 *
 * Prints how many calls this process has made, and how many the child, and ends with 0.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"
#include "truth.h"

#define HANDLED_EVERY 997
#define DEPTH	      600

static unsigned long calls, traps;

TRACED unsigned long leaf(const char *text, unsigned long length)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return length + (unsigned char)*text;
}

TRACED unsigned long handled(unsigned long number)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return number;
}

TRACED unsigned long recurse(unsigned long depth)
{
	volatile char room[256];

	room[0] = (char)depth;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return depth ? recurse(depth - 1) + (unsigned char)room[0] : 0;
}

UNTRACED static void on_trap(int number)
{
	(void)number;
	if (__atomic_add_fetch(&traps, 1, __ATOMIC_RELAXED) % HANDLED_EVERY == 0)
		handled(traps);
}

UNTRACED static void *work(void *argument)
{
	char *text = strdup("a text that is not on the stack");
	unsigned long count = *(unsigned long *)argument;

	STEPS_BEGIN();
	for (unsigned long i = 0; i < count; i++)
		leaf(text, i);
	recurse(DEPTH);
	STEPS_END();
	free(text);
	return NULL;
}

UNTRACED int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_trap};
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	pthread_t thread;
	pid_t child;
	int status;

	sigaction(SIGTRAP, &action, NULL);
	work(&count);
	if (pthread_create(&thread, NULL, work, &count) || pthread_join(thread, NULL))
		return 1;
	if (traps < 10 * count)
		return 2;
	child = fork();
	if (child < 0)
		return 3;
	if (!child)
		calls = 0;
	work(&count);
	if (child && (waitpid(child, &status, 0) != child || status))
		return 4;
	printf("%d %lu\n", (int)getpid(), calls);
	return 0;
}
