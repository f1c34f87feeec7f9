/*
 * Threads on stacks of the program's own, side by side in one array, all alive at once; then coroutines (routine.h) on
 * the same memory.
 */
#include <pthread.h>

#include "routine.h"

enum { COUNT = 4, SIZE = 128 * 1024 };

static _Alignas(4096) char memory[COUNT][SIZE];
static pthread_barrier_t barrier;

TRACED static long leaf(long x)
{
	TRUTH();
	return x * 2 + 1;
}

TRACED static long meet(long depth)
{
	TRUTH();
	if (depth)
		return leaf(meet(depth - 1));
	pthread_barrier_wait(&barrier); /* all are as deep now */
	return leaf(1);
}

TRACED static void *run(void *argument)
{
	TRUTH();
	long total = 0;

	for (long depth = 0; depth < 3; depth++)
		total += meet(depth);
	*(long *)argument = total;
	return NULL;
}

TRACED static long on_threads(void)
{
	TRUTH();
	pthread_attr_t attributes;
	pthread_t threads[COUNT];
	long totals[COUNT], total = 0;

	pthread_attr_init(&attributes);
	for (int i = 0; i < COUNT; i++) {
		if (pthread_attr_setstack(&attributes, memory[i], SIZE) ||
		    pthread_create(&threads[i], &attributes, run, &totals[i]))
			_exit(97);
	}
	for (int i = 0; i < COUNT; i++) {
		pthread_join(threads[i], NULL);
		total += totals[i];
	}
	return total;
}

TRACED static void member(struct routine *self)
{
	TRUTH();
	for (int i = 0; i < 3; i++) {
		self->value = leaf(self->value);
		routine_pause(self);
	}
}

TRACED static long on_routines(void)
{
	TRUTH();
	struct routine routines[COUNT];
	long total = 0;

	for (int i = 0; i < COUNT; i++)
		routine_begin(&routines[i], member, memory[i], SIZE);
	for (int turn = 0; turn < 4 * COUNT; turn++)
		routine_resume(&routines[turn % COUNT]);
	for (int i = 0; i < COUNT; i++)
		total += routines[i].value + routines[i].done;
	return total;
}

int main(void)
{
	TRUTH();
	pthread_barrier_init(&barrier, NULL, COUNT);
	for (int i = 0; i < 2; i++) {
		printf("threads %ld", on_threads());
		printf(" routines %ld\n", on_routines());
	}
	return 0;
}
