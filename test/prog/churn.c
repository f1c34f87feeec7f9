/*
 * Coroutines (routine.h) that come and go on allocated stacks of many sizes: some end, some are freed in the middle of
 * their calls, and later ones get their memory, or a part of it, or parts of two.
 */
#include "routine.h"

enum { ALIVE = 6, ROUNDS = 120, KIB = 1024 };

static struct routine routines[ALIVE];
static char *stacks[ALIVE];
static unsigned chance = 1;

UNTRACED static unsigned dice(unsigned sides)
{
	chance = chance * 1103515245 + 12345;
	return (chance >> 16) % sides;
}

TRACED static long leaf(long x)
{
	TRUTH();
	return x + 1;
}

TRACED static void descend(struct routine *self, unsigned depth)
{
	TRUTH();
	if (depth)
		descend(self, depth - 1);
	else
		routine_pause(self);
	self->value = leaf(self->value);
}

TRACED static void member(struct routine *self)
{
	TRUTH();
	for (int i = 0; i < 3; i++)
		descend(self, dice(4));
}

TRACED static void replace(int at)
{
	TRUTH();
	size_t size = 16 * KIB + dice(40) * 1008; /* ends anywhere in a page */

	free(stacks[at]);
	stacks[at] = malloc(size);
	if (!stacks[at])
		_exit(97);
	routine_begin(&routines[at], member, stacks[at], size);
}

int main(void)
{
	TRUTH();
	long total = 0, ended = 0;

	for (int i = 0; i < ALIVE; i++)
		replace(i);
	for (int i = 0; i < ROUNDS; i++) {
		int at = dice(ALIVE);

		if (!routines[at].done && dice(5)) {
			routine_resume(&routines[at]);
			continue;
		}
		total += routines[at].value;
		ended += routines[at].done;
		replace(at);
	}
	printf("total %ld, ended %ld\n", leaf(total), ended);
	return 0;
}
