/*
 * For -finstrument-functions, with hooks of its own: prints what they see, each function and the place that it was
 * called from, as distances from the program's start; -1 is a place elsewhere.  Frames of many shapes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN	 __attribute__((no_instrument_function))
#define FUNCTION __attribute__((noinline))
#define SEEN_MAX 20000

extern char __executable_start, etext;

static struct seen {
	long function, site;
} seen[SEEN_MAX];
static int count;
static volatile int sink;

PLAIN static long distance(const void *address)
{
	return (const char *)address < &etext && (const char *)address >= &__executable_start
		       ? (const char *)address - &__executable_start
		       : -1;
}

PLAIN static void see(const void *function, const void *site)
{
	if (count < SEEN_MAX)
		seen[count++] = (struct seen){distance(function), distance(site)};
}

PLAIN FUNCTION void __cyg_profile_func_enter(void *function, void *site)
{
	see(function, site);
}

PLAIN FUNCTION void __cyg_profile_func_exit(void *function, void *site)
{
	see(function, site);
}

FUNCTION int leaf(int x)
{
	return x * 3 + sink;
}

FUNCTION double vectors(double a, double b, int x)
{
	return a * b + leaf(x);
}

FUNCTION int aligned(int x)
{
	__attribute__((aligned(64))) volatile char kept[128];

	kept[x & 63] = (char)x;
	return kept[x & 63] + leaf(x);
}

FUNCTION int variable(int x)
{
	char text[x + 1];

	memset(text, 1, (size_t)x);
	return text[x / 2] + leaf(x);
}

FUNCTION int last(int x)
{
	return leaf(x + 1);
}

FUNCTION int recursive(int n)
{
	return n ? recursive(n - 1) + last(n) : 0;
}

FUNCTION int many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	return a + b + c + d + e + f + g + h + leaf(a);
}

FUNCTION int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

FUNCTION int sorted(int x)
{
	int numbers[6] = {x, 3, x * 7 % 5, 1, 9, 2};

	qsort(numbers, 6, sizeof(int), compare);
	return numbers[2];
}

PLAIN int main(void)
{
	long sum = 0;

	for (int i = 1; i < 40; i++)
		sum += leaf(i) + (long)vectors(i, 2, 3) + aligned(i) + variable(i) + last(i) + recursive(i % 5) +
		       many(1, 2, 3, 4, 5, 6, 7, i) + sorted(i);
	for (int i = 0; i < count; i++)
		printf("%lx from %lx\n", seen[i].function, seen[i].site);
	printf("%ld\n", sum);
	return 5;
}
