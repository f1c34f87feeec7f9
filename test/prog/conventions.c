/*
 * Functions that are called in other ways than the platform's: ms_abi with its shadow space, callees that save every
 * register, callers that know what a callee leaves alone (-fipa-ra); clang's preserve_most, preserve_all, regcall,
 * vectorcall and musttail.
 */
#include <stdarg.h>

#include "truth.h"

#if defined(__clang__)
#define SIMPLE __attribute__((noinline))
#else
#define SIMPLE __attribute__((noinline, noclone)) /* TRACED would switch -fipa-ra off */
#endif

__attribute__((ms_abi)) TRACED static double of_windows(int a, double b, long c, float d, long e, double f)
{
	TRUTH();
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6;
}

__attribute__((ms_abi)) TRACED static long windows_sum(int count, ...)
{
	TRUTH();
	__builtin_ms_va_list list;
	long total = 0;

	__builtin_ms_va_start(list, count);
	while (count--)
		total += __builtin_va_arg(list, long);
	__builtin_ms_va_end(list);
	return total;
}

TRACED static long ours(long x)
{
	TRUTH();
	return x + 1;
}

__attribute__((ms_abi)) TRACED static long calls_back(long (*function)(long), long x)
{
	TRUTH();
	return function(x) + function(x + 1);
}

TRACED static void windows(void)
{
	TRUTH();
	__attribute__((ms_abi)) long (*volatile pointer)(long (*)(long), long) = calls_back;

	printf("%.1f %ld %ld\n", of_windows(1, 2.5, 3, 4.5f, 5, 6.5), windows_sum(6, 1L, 2L, 3L, 4L, 5L, 6L),
	       pointer(ours, 10));
}

/* Not in the log, for the log changes registers.  The compiler sees which ones these change. */
SIMPLE static long leaf(long x)
{
	return x * 3;
}

__attribute__((no_caller_saved_registers, target("general-regs-only"))) SIMPLE static long keeps(long x)
{
	__asm__ volatile("" : "+r"(x)::"rcx", "rdx", "rsi", "r8", "r9", "r10", "r11");
	return x + 7;
}

#if defined(__clang__)
__attribute__((preserve_most)) SIMPLE static long most(long x)
{
	__asm__ volatile("" : "+r"(x)::"rcx", "rdx", "rsi", "r8", "r9", "r10");
	return x + 11;
}

__attribute__((preserve_all)) SIMPLE static long all(long x)
{
	__asm__ volatile("" : "+r"(x)::"rcx", "rdx", "rsi", "r8", "r9", "r10", "xmm3", "xmm15");
	return x + 13;
}

__attribute__((regcall)) TRACED static long by_registers(long a, long b, long c, long d, long e, long f, long g, long h)
{
	static const char symbol[] = "__regcall3__by_registers";
	long result = a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;

	truth_line('>', symbol);
	truth_line('<', symbol);
	return result;
}

__attribute__((vectorcall)) TRACED static double by_vectors(double a, float b, long c, double d, double e, double f)
{
	TRUTH();
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6;
}

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
	printf("%ld %.1f\n", by_registers(1, 2, 3, 4, 5, 6, 7, 8), by_vectors(1, 2, 3, 4, 5, 6));
	printf("%ld\n", must(5, 0));
}

TRACED static long others(long x)
{
	return most(x) + all(x + 1) + most(x + 2);
}
#else
TRACED static void of_clang(void)
{
}

TRACED static long others(long x)
{
	return 0;
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

	windows();
	of_clang();
	printf("%ld\n", crowded((const long *)in, factors));
	return 0;
}
