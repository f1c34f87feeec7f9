/*
 * Functions that are called in other ways than the platform's (conventions.h of the CPU says which), callers that know
 * what a callee leaves alone (-fipa-ra), and clang's musttail.
 */
#include <stdarg.h>

#include "truth.h"

#if defined(__clang__)
#define SIMPLE __attribute__((noinline))
#else
#define SIMPLE __attribute__((noinline, noclone)) /* TRACED would switch -fipa-ra off */
#endif

TRACED static long ours(long x)
{
	TRUTH();
	return x + 1;
}

/* Not in the log, for the log changes registers.  The compiler sees which ones it changes, as of keeps() and others().
 */
SIMPLE static long leaf(long x)
{
	return x * 3;
}

#include "conventions.h"

#if defined(__clang__)
TRACED static long must(long n, long sum);

/* Read at run time, so that the compiler makes no loop of it. */
static long (*volatile const to_must)(long, long) = must;

TRACED static long must(long n, long sum)
{
	TRUTH_TAIL();
	if (n == 0)
		return sum;
	__attribute__((musttail)) return to_must(n - 1, sum + n);
}

TRACED static void of_clang(void)
{
	TRUTH();
	printf("%ld\n", must(5, 0));
}
#else
TRACED static void of_clang(void)
{
}
#endif

/* More values are alive over the calls than a call leaves alone by the platform's convention. */
TRACED static long crowded(const long *in, const double *factors)
{
	long a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7], i = in[8],
	     j = in[9];
	double x = factors[0], y = factors[1];
	long sum = 0;

	for (int turn = 0; turn < 5; turn++) {
		sum += leaf(turn) + keeps(sum);
		a += b ^ turn;
		b += c;
		c += d - sum;
		sum += leaf(a) + keeps(b);
		d += e;
		e += f ^ sum;
		f += g;
		sum += others(turn);
		g += h;
		h += i;
		i += j;
		x = x * y + (double)turn;
	}
	return sum + a + b + c + d + e + f + g + h + i + j + (long)x;
}

int main(int argc, char **argv)
{
	TRUTH();
	static const long volatile in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	static const double factors[] = {1.5, 2.5};

	of_this_cpu();
	of_clang();
	printf("%ld\n", crowded((const long *)in, factors));
	return 0;
}
