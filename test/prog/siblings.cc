/*
 * More calls in tail position: to itself and in a ring by pointers, with arguments on the stack, past an untraced
 * function, into libc, to a function that throws, and out of a handler.  The order of entries is the truth.
 */
#include <math.h>

#include "truth.h"

typedef long (*step)(long, long);

TRACED static long self(long n, long sum);
TRACED static long ring_a(long n, long sum);
TRACED static long ring_b(long n, long sum);
TRACED static long ring_c(long n, long sum);

/* Read at run time, so that the compiler makes no loop of it. */
static const step volatile to_self = self, to_a = ring_a, to_b = ring_b, to_c = ring_c;

TRACED static long self(long n, long sum)
{
	TRUTH_TAIL();
	return n ? to_self(n - 1, sum + n) : sum;
}

TRACED static long ring_a(long n, long sum)
{
	TRUTH_TAIL();
	return n ? to_b(n - 1, sum + 1) : sum;
}

TRACED static long ring_b(long n, long sum)
{
	TRUTH_TAIL();
	return n ? to_c(n - 1, sum + 10) : sum;
}

TRACED static long ring_c(long n, long sum)
{
	TRUTH_TAIL();
	return n ? to_a(n - 1, sum + 100) : sum;
}

TRACED static long many(long a, long b, long c, long d, long e, long f, long g, long h)
{
	TRUTH_TAIL();
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;
}

/* The arguments on the stack are the callee's to change. */
TRACED static long turned(long a, long b, long c, long d, long e, long f, long g, long h)
{
	TRUTH_TAIL();
	return many(h, g, f, e, d, c, b, a);
}

UNTRACED __attribute__((noinline)) static long hop(step function, long n)
{
	return function(n, 5);
}

TRACED static long past(long n)
{
	TRUTH_TAIL();
	return hop(self, n);
}

TRACED static double root(double x)
{
	TRUTH_TAIL();
	return sqrt(x);
}

TRACED static int library(const char *text)
{
	TRUTH_TAIL();
	return atoi(text);
}

TRACED static long fails(long n, long)
{
	TRUTH_TAIL();
	if (n)
		throw n;
	return n;
}

TRACED static long to_fails(long n)
{
	TRUTH_TAIL();
	return fails(n, 0);
}

TRACED static long handled(long n)
{
	TRUTH_TAIL();
	try {
		return to_fails(n) + 1;
	} catch (long value) {
		n = value;
	}
	return self(n, 0);
}

struct Base {
	TRACED virtual long twice(long n)
	{
		return self(n, n);
	}
	virtual ~Base() = default;
};

struct Left {
	virtual ~Left() = default;
	long pad = 1;
};

/* Base's table leads here through a thunk, which moves `this` and jumps; clang gives it a site and the same name. */
struct Both : Left, Base {
	TRACED long twice(long n) override
	{
		return Base::twice(n + pad);
	}
};

TRACED static long by_table(Base *base, long n)
{
	TRUTH_TAIL();
	return base->twice(n);
}

int main()
{
	TRUTH_TAIL();
	Both both;

	printf("%ld %ld\n", self(10, 0), ring_a(10, 0));
	printf("%ld %ld\n", turned(1, 2, 3, 4, 5, 6, 7, 8), past(3));
	printf("%.1f %d\n", root(6.25), library("42"));
	printf("%ld %ld\n", handled(4), handled(0));
	printf("%ld\n", by_table(&both, 2));
	return 0;
}
