/*
 * Requests that take as long as their arguments say: `calltap diff` and `calltap slow` are to find why.
 *
 *     compared REQUESTS ROUNDS SLEEP_EVERY NEW
 *
 * Each request parses (ROUNDS rounds of a loop), looks a key up and answers.  Every SLEEP_EVERY-th look-up misses and
 * waits 3 ms (0 = none does).  NEW is 1: answers are packed, which they are not else.  The program says what it did.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define APART __attribute__((noinline, noclone))

static volatile uint32_t sink;

APART void compared_parse(int rounds)
{
	for (int i = 0; i < rounds; i++)
		sink = sink * 1664525u + 1013904223u;
}

APART void compared_wait(void)
{
	struct timespec time = {.tv_nsec = 3000000};

	while (nanosleep(&time, &time))
		;
	sink++;
}

APART int compared_find(int key)
{
	for (int i = 0; i < 20; i++)
		sink += (uint32_t)key;
	return key;
}

APART int compared_lookup(int key, const char *kind)
{
	int found = compared_find(key);

	if (kind[0] == 'm') {
		compared_wait();
		found = compared_find(key);
	}
	sink++;
	return found;
}

APART void compared_pack(int found)
{
	sink += (uint32_t)found;
}

APART void compared_answer(int found, int pack)
{
	if (pack)
		compared_pack(found);
	for (int i = 0; i < 30; i++)
		sink ^= (uint32_t)i;
}

APART int compared_request(int number, int rounds, int missing, int pack)
{
	int found;

	compared_parse(rounds);
	found = compared_lookup(number, missing ? "missing" : "there");
	compared_answer(found, pack);
	return found;
}

/* A call within a call of the same function counts once in a total. */
APART int compared_descend(int depth)
{
	int below = depth ? compared_descend(depth - 1) : 0;

	sink++;
	return below + 1;
}

int main(int argc, char **argv)
{
	int requests = argc > 1 ? atoi(argv[1]) : 1000, rounds = argc > 2 ? atoi(argv[2]) : 100;
	int every = argc > 3 ? atoi(argv[3]) : 0, pack = argc > 4 ? atoi(argv[4]) : 0, missed = 0;

	for (int i = 0; i < requests; i++) {
		int missing = every && i % every == every - 1;

		missed += missing;
		if (compared_request(i, rounds, missing, pack) != i)
			return 1;
	}
	printf("%d requests, %d missed, depth %d\n", requests, missed, compared_descend(9));
	return 0;
}
