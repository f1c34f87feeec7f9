/*
 * Calls whose arguments and results a report sorts: each is said, "function argument result", and how many calls of the
 * function are open around it that have the same argument.
 */
#include <stdio.h>
#include <stdlib.h>

enum kind { SMALL, LARGE = 5, ODD = 77 };

static long sum;

__attribute__((noinline)) int weigh(enum kind kind, int turns)
{
	volatile int room = 0;

	for (int i = 0; i < turns; i++)
		room += i;
	sum += room;
	return turns % 3;
}

/* Calls itself with the same argument, and with others. */
__attribute__((noinline)) int descend(int depth, int same)
{
	int below;

	if (same)
		below = descend(depth, same - 1);
	else
		below = depth ? descend(depth - 1, depth % 2) : 0;
	printf("descend %d %d\n", depth, (below + depth) % 4);
	return (below + depth) % 4;
}

int main(void)
{
	static const enum kind kinds[] = {SMALL, LARGE, LARGE, ODD, LARGE, 9};

	for (int i = 0; i < 60; i++) {
		enum kind kind = kinds[i % 6];
		int result = weigh(kind, i * 10);

		printf("weigh %d %d\n", (int)kind, result);
	}
	descend(6, 2);
	return sum == 1;
}
