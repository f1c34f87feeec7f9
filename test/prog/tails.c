/* Calls in tail position, which -O2 makes into jumps: direct, mutual, by pointer. The order of entries is the truth. */
#include "truth.h"

TRACED static int last(int x)
{
	TRUTH_TAIL();
	return x + 1;
}

TRACED static int first(int x)
{
	TRUTH_TAIL();
	return last(x * 2);
}

TRACED static int even(int n, int steps);

TRACED static int odd(int n, int steps)
{
	TRUTH_TAIL();
	return n == 0 ? -steps : even(n - 1, steps + 1);
}

TRACED static int even(int n, int steps)
{
	TRUTH_TAIL();
	return n == 0 ? steps : odd(n - 1, steps + 1);
}

TRACED static int by_pointer(int (*function)(int), int x)
{
	TRUTH_TAIL();
	return function(x);
}

int main(void)
{
	TRUTH_TAIL();
	printf("%d %d %d %d\n", first(20), even(6, 0), odd(6, 0), by_pointer(last, 3));
	printf("%d\n", by_pointer(first, 5));
	return 0;
}
