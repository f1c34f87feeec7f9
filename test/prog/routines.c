/*
 * Coroutines (routine.h): a scheduler over stacks of several sizes that lie side by side in static, allocated and
 * mapped memory; a generator, symmetric and nested ones, some that are left for good and whose stack is used again.
 */
#include <sys/mman.h>

#include "routine.h"

enum { SIDE_BY_SIDE = 4, KIB = 1024, LARGEST = 1024 * KIB };

static _Alignas(4096) char arena[SIDE_BY_SIDE * LARGEST];

TRACED static long leaf(long x)
{
	TRUTH();
	return x * 3 + 1;
}

TRACED static void pause_at(struct routine *self, int depth)
{
	TRUTH();
	if (depth)
		pause_at(self, depth - 1);
	else
		routine_pause(self);
	self->value = leaf(self->value);
}

/* Pauses at another depth each time. */
TRACED static void worker(struct routine *self)
{
	TRUTH();
	for (int i = 0; i < 3; i++)
		pause_at(self, i);
}

TRACED static long between(long total, long value)
{
	TRUTH();
	return total * 7 + value;
}

TRACED static long schedule(char *memory, size_t size)
{
	TRUTH();
	struct routine routines[SIDE_BY_SIDE];
	long total = 0;

	for (int i = 0; i < SIDE_BY_SIDE; i++)
		routine_begin(&routines[i], worker, memory + i * size, size);
	for (int live = SIDE_BY_SIDE; live;) {
		live = 0;
		for (int i = 0; i < SIDE_BY_SIDE; i++) {
			if (routines[i].done)
				continue;
			routine_resume(&routines[i]);
			total = between(total, routines[i].value);
			live += !routines[i].done;
		}
	}
	return total;
}

TRACED static void sides(size_t size)
{
	TRUTH();
	char *allocated = malloc(SIDE_BY_SIDE * size);
	char *mapped = mmap(NULL, SIDE_BY_SIDE * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!allocated || mapped == MAP_FAILED)
		_exit(97);
	printf("%zu KiB: %ld", size / KIB, schedule(arena, size));
	printf(" %ld", schedule(allocated, size));
	printf(" %ld\n", schedule(mapped, size));
}

TRACED static void numbers(struct routine *self)
{
	TRUTH();
	for (long a = 0, b = 1, next; a < 50; next = a + b, a = b, b = next) {
		self->value = leaf(a);
		routine_pause(self);
	}
}

TRACED static void generate(void)
{
	TRUTH();
	struct routine generator;

	routine_begin(&generator, numbers, arena, 64 * KIB);
	for (routine_resume(&generator); !generator.done; routine_resume(&generator))
		printf("%ld ", generator.value);
	printf("generated\n");
}

static struct routine ring[3];

/* Hands on to the next, round and round; the first one to have counted to the end goes home for all. */
TRACED static void handing_on(struct routine *self)
{
	TRUTH();
	struct routine *next = &ring[(self - ring + 1) % 3];

	for (int round = 0; round < 3; round++) {
		next->value = leaf(self->value);
		routine_transfer(self, next);
		next->value = leaf(self->value);
	}
	place_switch(&self->self, &ring[0].home);
}

/* The others are left in the middle, and ring[0]'s frames, too: told by whatever is on their memory next. */
TRACED static void symmetric(void)
{
	TRUTH();
	for (int i = 0; i < 3; i++)
		routine_begin(&ring[i], handing_on, arena + (size_t)i * 64 * KIB, 64 * KIB);
	routine_resume(&ring[0]);
	printf("symmetric %ld\n", ring[0].value % 1000);
}

TRACED static void inner(struct routine *self)
{
	TRUTH();
	self->value = 5;
	pause_at(self, 1);
	pause_at(self, 0);
}

TRACED static void outer(struct routine *self)
{
	TRUTH();
	struct routine nested;

	routine_begin(&nested, inner, arena + 256 * KIB, 64 * KIB);
	while (!nested.done) {
		routine_resume(&nested);
		self->value = leaf(nested.value);
		pause_at(self, 2);
	}
}

TRACED static void nesting(void)
{
	TRUTH();
	struct routine routine;

	routine_begin(&routine, outer, arena, 256 * KIB);
	while (!routine.done) {
		routine_resume(&routine);
		routine.value = leaf(routine.value);
	}
	printf("nested %ld\n", routine.value);
}

/* Each is left while it pauses deeper or less deep than the one before, and its stack goes to the next. */
TRACED static void left_for_good(void)
{
	TRUTH();
	long total = 0;

	for (int i = 0; i < 6; i++) {
		struct routine routine;

		routine_begin(&routine, worker, arena + 64 * KIB, 64 * KIB);
		for (int turns = 0; turns <= i % 3; turns++)
			routine_resume(&routine);
		total = between(total, routine.value);
	}
	printf("left %ld\n", total);
}

static ucontext_t here;

TRACED static void climb(int depth)
{
	TRUTH();
	if (depth)
		climb(depth - 1);
	else
		setcontext(&here);
}

/* A context as the target of a jump on the same stack. */
TRACED static void by_getcontext(void)
{
	TRUTH();
	volatile int times = 0;

	getcontext(&here);
	if (times)
		TRUTH_LANDED();
	leaf(times);
	if (times++ < 4)
		climb(times % 3);
}

int main(void)
{
	TRUTH();
#ifndef BY_HAND /* nobody could tell such small ones from the one above */
	sides(16 * KIB);
#endif
	sides(64 * KIB);
	sides(256 * KIB);
	sides(LARGEST);
	generate();
	symmetric();
	nesting();
	left_for_good();
	by_getcontext();
	return 0;
}
