/*
 * A thread that is always on a coroutine's stack (routine.h), the lowest of many in one mapping: the mapping does not
 * tell where that stack ends.  A second thread waits.  Runs until it is told to stop (SIGTERM).
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "routine.h"

#define STACK_SIZE (64ul << 10)
#define STACKS	   64

static volatile sig_atomic_t stop;

UNTRACED static void on_end(int number)
{
	stop = 1;
}

TRACED static long leaf(long x)
{
	return x + 1;
}

TRACED static long middle(long x)
{
	return leaf(x) + leaf(x + 1);
}

TRACED static void work(struct routine *self)
{
	for (long i = 0; !stop; i++) {
		if (middle(i) != 2 * i + 3)
			_exit(1);
		if (i % 1000 == 0)
			poll(NULL, 0, 1);
	}
}

UNTRACED static void *run(void *memory)
{
	struct routine routine;

	routine_begin(&routine, work, memory, STACK_SIZE);
	routine_resume(&routine);
	return memory;
}

int main(void)
{
	void *memory = mmap(NULL, STACKS * STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	signal(SIGTERM, on_end);
	if (memory == MAP_FAILED || pthread_create(&thread, NULL, run, memory))
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	pthread_join(thread, NULL);
	printf("all was well\n");
	return 42;
}
