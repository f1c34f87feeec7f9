/*
 * Stacks handed from thread to thread: a coroutine (routine.h) that begins on one thread, goes on on others, some of
 * which have ended by then, and ends on the main one; and two that change threads again and again.
 */
#include <pthread.h>

#include "routine.h"

enum { SIZE = 64 * 1024, HELPERS = 4, TURNS = 10 };

static char memory[3][SIZE];
static struct routine routines[3];
static pthread_barrier_t barrier;

TRACED static long leaf(long x)
{
	TRUTH();
	return x * 5 + 2;
}

TRACED static void deeper(struct routine *self, int depth)
{
	TRUTH();
	self->value = leaf(self->value);
	if (depth)
		deeper(self, depth - 1);
	else
		routine_pause(self);
	self->value = leaf(self->value);
	routine_pause(self);
}

TRACED static void traveller(struct routine *self)
{
	TRUTH();
	deeper(self, 3);
	self->value = leaf(self->value);
}

TRACED static void commuter(struct routine *self)
{
	TRUTH();
	for (int i = 0; i < 2 * TURNS - 1; i++) {
		self->value = leaf(self->value) % 1000003;
		routine_pause(self);
	}
}

TRACED static void *one_leg(void *argument)
{
	TRUTH();
	leaf(1);
	routine_resume(argument);
	leaf(2);
	return NULL;
}

TRACED static void travel(void)
{
	TRUTH();
	pthread_t thread;

	routine_begin(&routines[0], traveller, memory[0], SIZE);
	for (int i = 0; i < HELPERS; i++) {
		pthread_create(&thread, NULL, one_leg, &routines[0]);
		pthread_join(thread, NULL);
	}
	while (!routines[0].done)
		routine_resume(&routines[0]);
	printf("travelled %ld\n", routines[0].value);
}

/* Two threads, two coroutines: each thread runs the one that the other ran before. */
TRACED static void *swap_over(void *argument)
{
	TRUTH();
	for (int i = 0; i < 2 * TURNS; i++) {
		routine_resume(&routines[1 + (i + (argument != NULL)) % 2]);
		leaf(i);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

TRACED static void commute(void)
{
	TRUTH();
	pthread_t thread;

	for (int i = 1; i < 3; i++)
		routine_begin(&routines[i], commuter, memory[i], SIZE);
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, swap_over, memory);
	swap_over(NULL);
	pthread_join(thread, NULL);
	printf("commuted %ld %ld, done %d %d\n", routines[1].value, routines[2].value, routines[1].done,
	       routines[2].done);
}

int main(void)
{
	TRUTH();
	travel();
	commute();
	return 0;
}
