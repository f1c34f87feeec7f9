/*
 * IFUNC: resolvers that have sites and call functions that have, run by the loader while it relocates, before the
 * agent can be ready; and the functions that they choose, called directly and by pointer.  With LEFT_ALONE resolvers
 * have no site: clang's call of __fentry__ goes by a PLT entry that is not ready either, traced or not.
 */
#include "truth.h"

#ifdef LEFT_ALONE
#define RESOLVER UNTRACED __attribute__((noinline))
#else
#define RESOLVER TRACED
#endif

int resolved; /* how often a resolver ran; it may call nothing of libc */

RESOLVER static int which(int value)
{
	resolved++;
	return value > 1;
}

TRACED int plain_add(int a, int b)
{
	TRUTH();
	return a + b;
}

TRACED int other_add(int a, int b)
{
	TRUTH();
	return a + b + 1000;
}

TRACED static double plain_scale(double x, int by)
{
	TRUTH();
	return x * by;
}

TRACED static double other_scale(double x, int by)
{
	TRUTH();
	return x / by;
}

typedef int adds(int, int);
typedef double scales(double, int);

/* Reached through the PLT from here, and by pointer from anywhere. */
RESOLVER static adds *resolve_add(void)
{
	return which(1) ? other_add : plain_add;
}

RESOLVER static scales *resolve_scale(void)
{
	return which(2) ? other_scale : plain_scale;
}

int add(int a, int b) __attribute__((ifunc("resolve_add")));
static double scale(double x, int by) __attribute__((ifunc("resolve_scale")));

static adds *const volatile pointer = add;

TRACED static int twice(adds *function)
{
	TRUTH();
	return function(1, 2) + function(3, 4);
}

int main(void)
{
	TRUTH();
	printf("%d %d %.1f\n", add(1, 2), twice(pointer), scale(3, 2));
	printf("%.2f %s\n", scale(7, 4), resolved >= 2 ? "resolved" : "not resolved");
	return 0;
}
