/*
 * To be built with -pg, so that gmon.out holds each caller of each function: calls of many shapes, as many rounds as
 * the argument says, 100 by default.  A second argument "wait": a line "ready" first, a nap between rounds, and the end
 * comes with SIGUSR1.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))

static volatile int sink;
static volatile sig_atomic_t told;
static jmp_buf back;

FUNCTION int leaf(int x)
{
	return x * 3 + sink;
}

FUNCTION int many(int a, int b, int c, int d, int e, int f, int g, double h)
{
	sink = 0;
	return a + b + c + d + e + f + g + (int)h;
}

FUNCTION int recursive(int n)
{
	return n ? recursive(n - 1) + leaf(n) : leaf(0);
}

FUNCTION int last(int x)
{
	return leaf(x + 1);
}

/* Jumps to last(), at -O2. */
FUNCTION int jumping(int x)
{
	sink = 0;
	return last(x);
}

FUNCTION int compare(const void *a, const void *b)
{
	return leaf(*(const int *)a) - leaf(*(const int *)b);
}

/* Keeps arguments in registers over the call that its profile is made by. */
FUNCTION int sorted(int seed)
{
	int numbers[8];

	for (int i = 0; i < 8; i++)
		numbers[i] = (seed * 7 + i * 5) % 11;
	qsort(numbers, 8, sizeof(int), compare);
	return numbers[3];
}

FUNCTION void leaving(int n)
{
	if (!n)
		longjmp(back, 1);
	leaving(n - 1);
	sink = n;
}

FUNCTION int jumped(void)
{
	if (setjmp(back))
		return leaf(4);
	leaving(3);
	return 0;
}

FUNCTION void handler(int number)
{
	sink = leaf(number) * 0;
}

FUNCTION long variable(int n)
{
	char text[n + 1];

	memset(text, 'x', (size_t)n);
	text[n] = 0;
	return (long)strlen(text) + leaf(n);
}

static void stop(int number)
{
	told = number;
}

FUNCTION long once(int i)
{
	long sum = leaf(i) + many(i, 2, 3, 4, 5, 6, 7, 8.0) + recursive(i % 7) + jumping(i) + sorted(i) + jumped();

	raise(SIGUSR2);
	return sum + variable(i % 40);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, wait = argc > 2 && !strcmp(argv[2], "wait"), done = 0;
	long sum = 0;

	signal(SIGUSR2, handler);
	signal(SIGUSR1, stop);
	if (wait)
		puts("ready"), fflush(stdout);
	for (; done < rounds; done++) {
		sum = (sum * 31 + once(done % 100)) % 1000003;
		if (wait && done % 20 == 19)
			usleep(2000);
	}
	while (wait && !told)
		usleep(1000);
	printf("%d rounds, %ld\n", done, sum);
	return 3;
}
