/*
 * gcc's nested functions, which find their parent's variables by the static chain in r10: called directly, by
 * pointer through a trampoline on the stack, recursively, and left by a goto out of them.  With LEFT_ALONE they are
 * not logged: with -mfentry gcc puts their site behind a push, where it cannot be used.
 */
#include "truth.h"

#ifdef LEFT_ALONE
#define NESTED_TRUTH()
#else
#define NESTED_TRUTH TRUTH
#endif

TRACED static int apply(int (*function)(int), int count)
{
	TRUTH();
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += function(i);
	return sum;
}

TRACED static int compares(void)
{
	TRUTH();
	int numbers[] = {5, 2, 8, 1, 9, 3}, calls = 0;

	__attribute__((noinline, noipa)) int compare(const void *a, const void *b)
	{
		NESTED_TRUTH();
		calls++;
		return *(const int *)a - *(const int *)b;
	}
	qsort(numbers, 6, sizeof(numbers[0]), compare);
	return numbers[0] * 100 + numbers[5] * 10 + (calls > 4);
}

TRACED static int outer(int base)
{
	TRUTH();
	int seen = 0;

	__attribute__((noinline, noipa)) int add(int value)
	{
		NESTED_TRUTH();
		seen += value;
		return base + value;
	}
	__attribute__((noinline, noipa)) int count_down(int value)
	{
		NESTED_TRUTH();
		return value ? count_down(value - 1) + add(value) : 0;
	}
	return add(1) + apply(add, 4) + count_down(3) + seen;
}

/* The goto leaves `jump` and `apply` as a longjmp would. */
TRACED static int leaves(int limit)
{
	__label__ out;
	TRUTH();
	int seen = 0;

	__attribute__((noinline, noipa)) int jump(int value)
	{
		NESTED_TRUTH();
		seen += value;
		if (value == limit)
			goto out;
		return value;
	}
	apply(jump, 10);
	return -1;
out:
	TRUTH_LANDED();
	apply(abs, 2);
	return seen;
}

int main(void)
{
	TRUTH();
	printf("%d %d\n", compares(), outer(10));
	for (int i = 0; i < 3; i++)
		printf("%d\n", leaves(i + 2));
	return 0;
}
