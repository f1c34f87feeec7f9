/*
 * Arguments and results as handlers see them: of every kind that has a register, and those on the stack; where the call
 * came from; and what a handler must not change.
 */
#include <complex.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>

#include "handled.h"

static long entries, exits;

/* The values that the next call's handlers must see. */
static struct {
	const void *function, *from;
	unsigned skipped, count, floats, result_kind; /* skipped: general registers before the arguments */
	uint64_t arguments[12];
	double doubles[12];
	bool narrow; /* the doubles are floats */
	uint64_t result, second;
	double real, imaginary;
} wanted;

enum { NOTHING, SHORT, NUMBER, PAIR, REAL, NARROW, COMPLEX, MIXED };

UNTRACED static void expect_bits(const char *what, double found, double value)
{
	uint64_t is, should;

	memcpy(&is, &found, 8);
	memcpy(&should, &value, 8);
	expect(what, (long)is, (long)should);
}

UNTRACED static float narrow(double value)
{
	float half;

	memcpy(&half, &value, 4);
	return half;
}

UNTRACED static void look(struct calltap_call *call)
{
	expect("the function", (long)call->function, (long)wanted.function);
	expect("its caller", call->caller - (uintptr_t)wanted.from < 4096, 1);
	expect("its stack", call->stack % 16, STACK_AT_ENTRY);
}

UNTRACED static int on_entry(struct calltap_call *call, void *context)
{
	look(call);
	expect("no flags", call->flags, 0);
	for (unsigned i = 0; i < wanted.count; i++)
		expect("an argument", calltap_call_argument(call, wanted.skipped + i), (long)wanted.arguments[i]);
	for (unsigned i = 0; i < wanted.floats; i++) {
		if (wanted.narrow)
			expect("a float", narrow(calltap_call_float_argument(call, i)) == (float)wanted.doubles[i], 1);
		else
			expect_bits("a double", calltap_call_float_argument(call, i), wanted.doubles[i]);
	}
	entries++;
	return ANSWERED;
}

UNTRACED static void on_exit_of(struct calltap_call *call, void *context)
{
	look(call);
	expect("the flag of an exit", call->flags, CALLTAP_CALL_EXIT);
	if (wanted.result_kind == NUMBER || wanted.result_kind == PAIR)
		expect("a result", calltap_call_result(call), (long)wanted.result);
	if (wanted.result_kind == SHORT)
		expect("a result of 32 bits", (uint32_t)calltap_call_result(call), (long)wanted.result);
	if (wanted.result_kind == PAIR)
		expect("its second word", (long)SECOND_RESULT(call), (long)wanted.second);
	if (wanted.result_kind == REAL || wanted.result_kind == COMPLEX)
		expect_bits("a real result", calltap_call_float_result(call), wanted.real);
	if (wanted.result_kind == NARROW)
		expect("a float result", narrow(calltap_call_float_result(call)) == (float)wanted.real, 1);
	if (wanted.result_kind == COMPLEX) {
		double second;

		memcpy(&second, (const char *)call->vectors + CALLTAP_CALL_VECTORS_FLOATS + CALLTAP_CALL_VECTORS_STEP,
		       8);
		expect_bits("the imaginary part", second, wanted.imaginary);
	}
	if (wanted.result_kind == MIXED) {
		expect("a result's word", (long)calltap_call_result(call), (long)wanted.result);
		if (MIXED_IN_VECTORS)
			expect_bits("and its real", calltap_call_float_result(call), wanted.real);
	}
	exits++;
}

TRACED static int of_int(int x, unsigned char small, bool yes)
{
	ROOM_FOR_JUMP();
	return x - small - yes;
}

TRACED static const char *of_pointer(const char *text, long skip)
{
	ROOM_FOR_JUMP();
	return text + skip;
}

TRACED static long of_nine(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	return a + b + c + d + e + f + g + h + i;
}

TRACED static double of_doubles(double a, double b, long n, double c)
{
	return a * b + c * n;
}

TRACED static double of_eight(double a, double b, double c, double d, double e, double f, double g, double h, double i)
{
	return a + b + c + d + e + f + g + h + i;
}

TRACED static float of_floats(float a, float b)
{
	ROOM_FOR_JUMP();
	return a / b;
}

struct words {
	long first, second;
};
struct mixed {
	long word;
	double real;
};
struct large {
	long words[5];
};

TRACED static struct words of_words(struct words in, long more)
{
	return (struct words){in.first + more, in.second - more};
}

TRACED static struct mixed of_mixed(struct mixed in)
{
	return (struct mixed){in.word * 3, in.real / 2};
}

TRACED static struct large of_large(struct large in, long x)
{
	in.words[4] += x;
	return in;
}

TRACED static double complex of_complex(double complex z)
{
	return z * 2;
}

TRACED static long double of_long_double(long double x, long n)
{
	return x + n;
}

TRACED static double of_many(long count, ...)
{
	double total = 0;
	va_list list;

	va_start(list, count);
	for (int i = 0; i < count; i++)
		total += i % 2 ? (double)va_arg(list, long) : va_arg(list, double);
	va_end(list);
	return total;
}

UNTRACED static void want(const void *function, const void *from)
{
	memset(&wanted, 0, sizeof(wanted));
	wanted.function = function;
	wanted.from = from;
}

UNTRACED static void want_arguments(unsigned count, const uint64_t *arguments)
{
	wanted.count = count;
	memcpy(wanted.arguments, arguments, count * 8);
}

UNTRACED static void want_doubles(unsigned count, const double *doubles)
{
	wanted.floats = count;
	memcpy(wanted.doubles, doubles, count * 8);
}

UNTRACED static void want_result(unsigned kind, uint64_t result, uint64_t second, double real, double imaginary)
{
	wanted.result_kind = kind;
	wanted.result = result;
	wanted.second = second;
	wanted.real = real;
	wanted.imaginary = imaginary;
}

#define WORDS(...)                                                                                                     \
	((sizeof((uint64_t[]){__VA_ARGS__}) / 8)), (uint64_t[])                                                        \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}
#define REALS(...)                                                                                                     \
	((sizeof((double[]){__VA_ARGS__}) / 8)), (double[])                                                            \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

UNTRACED __attribute__((noinline)) static void integers(void)
{
	static const char text[] = "some text";
	int sum;

	want(of_int, integers);
	want_result(SHORT, (uint32_t)-206, 0, 0, 0);
	/* The function's arguments and result are narrow: the upper halves of their registers may hold anything. */
	sum = of_int(-5, 200, true);
	always("of_int", sum, -206);
	want(of_pointer, integers);
	want_arguments(WORDS((uintptr_t)text, 5));
	want_result(NUMBER, (uintptr_t)text + 5, 0, 0, 0);
	always("of_pointer", of_pointer(text, 5) - text, 5);
	want(of_nine, integers);
	want_arguments(WORDS(1, 2, 1l << 60, 4, -5l, 6, 7l << 40, 8, -9l));
	want_result(NUMBER, 1 + 2 + (1l << 60) + 4 - 5 + 6 + (7l << 40) + 8 - 9, 0, 0, 0);
	always("of_nine", of_nine(1, 2, 1l << 60, 4, -5, 6, 7l << 40, 8, -9), (long)wanted.result);
}

UNTRACED __attribute__((noinline)) static void reals(void)
{
	want(of_doubles, reals);
	want_arguments(WORDS(7));
	want_doubles(REALS(1.5, -2.25, 1e300));
	want_result(REAL, 0, 0, 1.5 * -2.25 + 1e300 * 7, 0);
	always("of_doubles", of_doubles(1.5, -2.25, 7, 1e300) == wanted.real, 1);
	want(of_eight, reals);
	want_doubles(REALS(1, 2, 3, 4, 5, 6, 7, 8));
	want_result(REAL, 0, 0, 45, 0);
	always("of_eight", of_eight(1, 2, 3, 4, 5, 6, 7, 8, 9) == 45, 1);
	want(of_floats, reals);
	want_doubles(REALS(7.5, 2.5));
	wanted.narrow = true;
	want_result(NARROW, 0, 0, 3, 0);
	always("of_floats", of_floats(7.5f, 2.5f) == 3, 1);
	want(of_complex, reals);
	want_doubles(REALS(3, -4));
	want_result(COMPLEX, 0, 0, 6, -8);
	always("of_complex", of_complex(3 - 4 * I) == 6 - 8 * I, 1);
	want(of_long_double, reals);
	wanted.skipped = LONG_DOUBLE_WORDS;
	want_arguments(WORDS(9));
	always("of_long_double", of_long_double(1e4000L, 9) == 1e4000L + 9, 1);
}

UNTRACED __attribute__((noinline)) static void structures(void)
{
	struct words words;
	struct mixed mixed;
	struct large large = {{1, 2, 3, 4, 5}}, back;

	want(of_words, structures);
	want_arguments(WORDS(100, 200, 30));
	want_result(PAIR, 130, 170, 0, 0);
	words = of_words((struct words){100, 200}, 30);
	always("of_words", words.first == 130 && words.second == 170, 1);
	want(of_mixed, structures);
	want_arguments(WORDS(5));
	if (MIXED_IN_VECTORS)
		want_doubles(REALS(2.5));
	want_result(MIXED, 15, 0, 1.25, 0);
	mixed = of_mixed((struct mixed){5, 2.5});
	always("of_mixed", mixed.word == 15 && mixed.real == 1.25, 1);
	want(of_large, structures);
	back = of_large(large, 6);
	always("of_large", back.words[4] == 11 && back.words[0] == 1, 1);
}

UNTRACED __attribute__((noinline)) static void variadic(void)
{
	want(of_many, variadic);
	want_arguments(WORDS(5));
	if (VARIADIC_IN_VECTORS) {
		want_arguments(WORDS(5, 2, 4));
		want_doubles(REALS(1.5, 3.5, 5.5));
	}
	want_result(REAL, 0, 0, 1.5 + 2 + 3.5 + 4 + 5.5, 0);
	always("of_many", of_many(5L, 1.5, 2L, 3.5, 4L, 5.5) == wanted.real, 1);
	want(of_many, variadic);
	want_result(REAL, 0, 0, 0, 0);
	always("of_many of none", of_many(0L) == 0, 1);
}

UNTRACED static void values(struct calltap_session *session)
{
	struct calltap_ops *ops = handled_on(session, 0, on_entry, on_exit_of, NULL, "of_*");

	for (int i = 0; i < 100; i++) {
		integers();
		reals();
		structures();
		variadic();
	}
	expect("entries", entries, 100 * 13);
	expect("exits", exits, 100 * 13);
	handled_off(ops);
	printf("%d calls\n", 100 * 13);
}

/* ---- general registers alone: no vectors, the rest as ever ---- */

static long generals;

BY_GENERALS static int general_entry(struct calltap_call *call, void *context)
{
	look(call);
	expect("no vectors", call->vectors != NULL, 0);
	for (unsigned i = 0; i < wanted.count; i++)
		expect("an argument", calltap_call_argument(call, wanted.skipped + i), (long)wanted.arguments[i]);
	generals++;
	return ANSWERED;
}

BY_GENERALS static void general_exit(struct calltap_call *call, void *context)
{
	look(call);
	expect("no vectors", call->vectors != NULL, 0);
	if (wanted.result_kind == NUMBER)
		expect("a result", calltap_call_result(call), (long)wanted.result);
	generals++;
}

UNTRACED static void general(struct calltap_session *session)
{
	struct calltap_ops *ops = handled_on(session, GENERAL, general_entry, general_exit, NULL, "of_*");

	for (int i = 0; i < 100; i++)
		integers();
	expect("entries and exits", generals, 600);
	handled_off(ops);
}

static const struct handled_case cases[] = {{"values", values}, {"general", general}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
