/*
 * The ways in which arguments and results are passed: structures in registers and in memory, complex numbers, x87,
 * 128-bit integers and floats, vectors of 16, 32 and 64 bytes (as far as the processor has them), and variadic calls
 * with all of them.
 */
#include <complex.h>
#include <stdarg.h>

#include "cpu.h"
#include "truth.h"

typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));

struct mixed { /* rax and xmm0 */
	double x;
	long n;
};

struct three { /* two vector registers */
	float x, y, z;
};

struct big { /* in memory */
	double values[5];
};

struct extended { /* in memory, although one x87 register would do */
	long double x, y;
};

union either {
	double x;
	long n;
};

TRACED static struct mixed mix(struct mixed a, union either b)
{
	TRUTH();
	return (struct mixed){a.x + a.n, b.n + 1};
}

TRACED static struct three cross(struct three a, struct three b)
{
	TRUTH();
	return (struct three){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

/* The last one finds too few registers left and goes to memory as a whole. */
TRACED static struct big gather(long a, long b, long c, long d, struct mixed e, struct big f, __int128 g)
{
	TRUTH();
	return (struct big){{a + b, c + d, e.x + e.n, f.values[4], (double)g}};
}

TRACED static struct extended swap(struct extended pair, long double scale)
{
	TRUTH();
	return (struct extended){pair.y * scale, pair.x * scale};
}

TRACED static long double root(long double x)
{
	TRUTH();
	return x / 3;
}

TRACED static double complex turn(double complex z, float complex w)
{
	TRUTH();
	return z * I + w;
}

/* Two results on the x87 stack. */
TRACED static long double complex turn_long(long double complex z)
{
	TRUTH();
	return z * I;
}

TRACED static __int128 multiply(__int128 a, long b)
{
	TRUTH();
	return a * b;
}

TRACED static cpu_quad halve(cpu_quad x)
{
	TRUTH();
	return x / 2;
}

TRACED static _Bool narrow(char a, short b, unsigned char c)
{
	TRUTH();
	return a + b == c;
}

TRACED static v4 add4(v4 a, v4 b)
{
	TRUTH();
	return a + b;
}

CPU_WITH_V8 TRACED static v8 add8(v8 a, v8 b)
{
	TRUTH();
	return a + b;
}

CPU_WITH_V16 TRACED static v16 add16(v16 a, v16 b)
{
	TRUTH();
	return a + b;
}

TRACED static double sum(const char *kinds, ...)
{
	TRUTH();
	va_list list;
	double total = 0;

	va_start(list, kinds);
	for (; *kinds; kinds++) {
		if (*kinds == 'd')
			total += va_arg(list, double);
		else if (*kinds == 'l')
			total += va_arg(list, long);
		else if (*kinds == 'L')
			total += (double)va_arg(list, long double);
		else if (*kinds == 'm')
			total += va_arg(list, struct mixed).n;
		else if (*kinds == 'v')
			total += va_arg(list, v4)[3];
	}
	va_end(list);
	return total;
}

TRACED static int say(const char *format, ...)
{
	TRUTH();
	va_list list;
	int size;

	va_start(list, format);
	size = vprintf(format, list);
	va_end(list);
	return size;
}

TRACED static void structures(void)
{
	TRUTH();
	struct mixed m = mix((struct mixed){1.5, 2}, (union either){.n = 41});
	struct three t = cross((struct three){1, 2, 3}, (struct three){4, 5, 6});
	struct big b = gather(1, 2, 3, 4, m, (struct big){{0, 0, 0, 0, 6.5}}, (__int128)7);
	struct extended e = swap((struct extended){1, 2}, 0.5L);

	printf("%.1f %ld, %.0f %.0f %.0f, %.1f %.1f %.1f, %.1Lf %.1Lf\n", m.x, m.n, t.x, t.y, t.z, b.values[1],
	       b.values[2], b.values[3] + b.values[4], e.x, e.y);
}

TRACED static void numbers(void)
{
	TRUTH();
	double complex z = turn(1 + 2 * I, 0.5f);
	long double complex l = turn_long(3 + 4 * I);
	__int128 product = multiply((__int128)1 << 80, -3);

	printf("%.3Lf, %.1f %.1f, %.1Lf %.1Lf\n", root(7), creal(z), cimag(z), creall(l), cimagl(l));
	printf("%ld %lu, %.2f, %d\n", (long)(product >> 64), (unsigned long)product, (double)halve((cpu_quad)2.5),
	       narrow(-1, 200, 199));
}

TRACED static void vectors4(void)
{
	TRUTH();
	v4 sum = add4((v4){1, 2, 3, 4}, (v4){10, 20, 30, 40});

	printf("%.0f %.0f\n", sum[0], sum[3]);
}

CPU_WITH_V8 TRACED static void vectors8(void)
{
	TRUTH();
	v8 sum = add8((v8){1, 2, 3, 4, 5, 6, 7, 8}, (v8){10, 20, 30, 40, 50, 60, 70, 80});

	printf("%.0f %.0f\n", sum[0], sum[7]);
}

CPU_WITH_V16 TRACED static void vectors16(void)
{
	TRUTH();
	v16 one = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, sum = add16(one, one);

	printf("%.0f %.0f\n", sum[0], sum[15]);
}

TRACED static void variadic(void)
{
	TRUTH();
	struct mixed m = {0.5, 3};

	printf("%.2f\n",
	       sum("dlddlddddddllll", 1.5, 2L, 3.5, 4.5, 5L, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12L, 13L, 14L, 15L));
	printf("%.2f %.2f\n", sum("Lmdv", 1.25L, m, 2.5, (v4){0, 0, 0, 4}), sum("lll", 1L, 2L, 3L));
	say("%d %.1f %s %.1Lf %c\n", 1, 2.5, "three", 4.5L, '5');
}

int main(void)
{
	TRUTH();
	structures();
	numbers();
	vectors4();
	if (CPU_HAS_V8)
		vectors8();
	if (CPU_HAS_V16)
		vectors16();
	variadic();
	return 0;
}
