/*
 * Thousands of coroutines (routine.h; the arguments say how many, and the KiB of each one's stack), all alive at once,
 * each paused in the middle of some calls and resumed in another order each time.
 */
#include <sys/mman.h>

#include "routine.h"

TRACED static long leaf(long x)
{
	ROOM_FOR_JUMP();
	return x + 1;
}

TRACED static void descend(struct routine *self, int depth)
{
	self->value = leaf(self->value);
	if (depth)
		descend(self, depth - 1);
	else
		routine_pause(self);
	self->value = leaf(self->value);
}

TRACED static void member(struct routine *self)
{
	for (int i = 0; i < 3; i++)
		descend(self, i);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 2000, size = (argc > 2 ? atol(argv[2]) : 16) * 1024, total = 0,
	     ended = 0;
	struct routine *routines = calloc(count, sizeof(*routines));
	char *memory =
		mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!routines || memory == MAP_FAILED)
		return 1;
	for (long i = 0; i < count; i++)
		routine_begin(&routines[i], member, memory + i * size, size);
	for (int round = 0; round < 4; round++) {
		long step = (long[]){1, 7, 11, 13}[round];

		for (long i = 0, at = 0; i < count; i++, at = (at + step) % count)
			routine_resume(&routines[at]);
	}
	for (long i = 0; i < count; i++) {
		total += routines[i].value;
		ended += routines[i].done;
	}
	printf("%ld routines ended, total %ld\n", ended, total);
	return 0;
}
