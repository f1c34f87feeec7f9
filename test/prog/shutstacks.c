/*
 * Coroutines (routine.h) that are paused in the middle of calls, on stacks that the program closes:
 *
 *     gone   its memory is given back, and memory without any rights is mapped in its place
 *     shut   it may neither be read nor be written until the coroutine goes on
 *     read   it may be read alone until then
 *
 * Each SIGUSR1 begins them; each SIGUSR2 opens those that are there, and has them go on to their end.  Prints "ready
 * PID"; SIGTERM ends it, with "all was well" and status 42.
 */
#include <signal.h>
#include <sys/mman.h>

#include "routine.h"

enum { SIZE = 1 << 16, DEPTH = 12, STATUS = 42 };

static const int closed[] = {-1, PROT_NONE, PROT_READ}; /* of each stack; -1 = it is gone */

enum { COUNT = sizeof(closed) / sizeof(closed[0]) };

static struct routine routines[COUNT];
static char *stacks[COUNT];
static sigset_t signals;

TRACED static void descend(struct routine *self, int depth)
{
	ROOM_FOR_JUMP();
	if (depth)
		descend(self, depth - 1);
	else
		routine_pause(self);
	self->value++;
}

UNTRACED static void run(struct routine *self)
{
	descend(self, DEPTH);
}

UNTRACED static int begin(void)
{
	for (int i = 0; i < COUNT; i++) {
		stacks[i] = mmap(stacks[i], SIZE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | (stacks[i] ? MAP_FIXED : 0), -1, 0);
		if (stacks[i] == MAP_FAILED)
			return 1;
		routine_begin(&routines[i], run, stacks[i], SIZE);
		routine_resume(&routines[i]);
		if (closed[i] >= 0 ? mprotect(stacks[i], SIZE, closed[i])
				   : mmap(stacks[i], SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
					     stacks[i])
			return 1;
	}
	return 0;
}

UNTRACED static int go_on(void)
{
	for (int i = 0; i < COUNT; i++) {
		if (closed[i] < 0 || !stacks[i] || routines[i].done)
			continue;
		if (mprotect(stacks[i], SIZE, PROT_READ | PROT_WRITE))
			return 1;
		routine_resume(&routines[i]);
		if (!routines[i].done || routines[i].value != DEPTH + 1)
			return 1;
	}
	return 0;
}

int main(void)
{
	int failed = 0, number = 0;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!failed && number != SIGTERM && !sigwait(&signals, &number))
		failed = number == SIGUSR1 ? begin() : number == SIGUSR2 ? go_on() : 0;
	if (failed)
		return 1;
	printf("all was well\n");
	return STATUS;
}
