/*
 * Plain calls in many shapes: nested, recursive, static, by pointer, variadic with floating point, structures and long
 * double by value, arguments on the stack, constructors, destructors, atexit.  With an argument, `slow` sleeps.
 */
#include <stdarg.h>
#include <time.h>

#include "truth.h"

struct pair {
	double a, b;
};

struct big {
	long v[9];
};

TRACED static int fib(int n)
{
	TRUTH();
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

TRACED static double sum(int count, ...)
{
	TRUTH();
	va_list list;
	double total = 0;

	va_start(list, count);
	while (count--)
		total += va_arg(list, double);
	va_end(list);
	return total;
}

TRACED static struct pair swap(struct pair p)
{
	TRUTH();
	return (struct pair){p.b, p.a};
}

TRACED static struct big fill(struct big seed, long step)
{
	TRUTH();
	for (int i = 0; i < 9; i++)
		seed.v[i] += i * step;
	return seed;
}

TRACED static long double halve(long double x)
{
	TRUTH();
	return x / 2;
}

TRACED static long many(long a, long b, long c, long d, long e, long f, long g, long h, double x, char i)
{
	TRUTH();
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + (long)(9 * x) + i;
}

TRACED static int twice(int (*function)(int), int value)
{
	TRUTH();
	return function(value) + function(value + 1);
}

TRACED static void slow(int argc)
{
	TRUTH();
	struct timespec pause = {0, 300000000};

	if (argc > 1)
		nanosleep(&pause, NULL);
}

TRACED int outer(int argc)
{
	TRUTH();
	slow(argc);
	return fib(4);
}

TRACED static void leaf(void)
{
	TRUTH();
}

__attribute__((constructor)) TRACED static void before(void)
{
	TRUTH();
	leaf();
}

__attribute__((destructor)) TRACED static void after(void)
{
	TRUTH();
	leaf();
}

TRACED static void at_exit(void)
{
	TRUTH();
	puts("at exit");
}

int main(int argc, char **argv)
{
	TRUTH();
	struct pair p = swap((struct pair){1.5, 2.5});
	struct big b = fill((struct big){{1, 2, 3, 4, 5, 6, 7, 8, 9}}, 10);

	atexit(at_exit);
	leaf();
	printf("fib %d outer %d twice %d\n", fib(7), outer(argc), twice(fib, 3));
	printf("sum %.3f pair %.1f %.1f half %.3Lf\n", sum(4, 1.5, 2.25, 3.125, 4.0), p.a, p.b, halve(7.5L));
	printf("big %ld many %ld\n", b.v[8], many(1, 2, 3, 4, 5, 6, 7, 8, 9.5, 'x'));
	return 0;
}
