/*
 * The cost of one call of a tiny function whose arguments or result the tracer records, beside two clock reads of the
 * same process.
 *
 * Prints "NAME NS" for each function, for "clock2", and for "spans" (two calls): the smallest of many short batches,
 * per call.  The loops carry no site.  The texts have 20 bytes: on the stack, in the program's data, in its constants,
 * and each time on a page that was not read before.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clocks.h"

#define TEXT "twenty bytes of text"

enum { PAGE = 4096, BATCH = 250, PAGES = 1 << 14 };

struct pair {
	int x, y;
	double weight;
};

static struct pair kept = {1, 2, 0.5};
static char data[] = TEXT;
static char *pages;
static const char constant[] = TEXT;

__attribute__((noinline)) int numbers(int a, long b)
{
	__asm__ volatile("" : "+r"(a));
	return a + (int)b;
}

__attribute__((noinline)) int begun(long number)
{
	__asm__ volatile("" : "+r"(number));
	return (int)number;
}

__attribute__((noinline)) int ended(long number)
{
	__asm__ volatile("" : "+r"(number));
	return (int)number;
}

__attribute__((noinline)) double doubles(double a, double b)
{
	__asm__ volatile("" : "+x"(a));
	return a + b;
}

__attribute__((noinline)) int near_pair(const struct pair *pair)
{
	__asm__ volatile("" : "+r"(pair));
	return pair->x;
}

__attribute__((noinline)) int far_pair(const struct pair *pair)
{
	__asm__ volatile("" : "+r"(pair));
	return pair->x;
}

__attribute__((noinline)) int stacked(const char *text)
{
	__asm__ volatile("" : "+r"(text));
	return *text;
}

__attribute__((noinline)) int placed(const char *text)
{
	__asm__ volatile("" : "+r"(text));
	return *text;
}

__attribute__((noinline)) int fixed(const char *text)
{
	__asm__ volatile("" : "+r"(text));
	return *text;
}

__attribute__((noinline)) int fresh(const char *text)
{
	__asm__ volatile("" : "+r"(text));
	return *text;
}

UNTRACED NO_SITE static void run_numbers(long calls)
{
	int x = 0;

	while (calls--)
		x = numbers(x, calls);
	sink += x;
}

/* A beginning and its end, each with a number that the others have not. */
UNTRACED NO_SITE static void run_spans(long calls)
{
	int x = 0;

	while (calls--) {
		x += begun(calls);
		x += ended(calls);
	}
	sink += x;
}

UNTRACED NO_SITE static void run_doubles(long calls)
{
	double x = 0;

	while (calls--)
		x = doubles(x, 1.5);
	sink += (uint64_t)x;
}

UNTRACED NO_SITE static void run_near_pair(long calls)
{
	struct pair pair = kept;
	int x = 0;

	while (calls--)
		x += near_pair(&pair);
	sink += x;
}

UNTRACED NO_SITE static void run_far_pair(long calls)
{
	int x = 0;

	while (calls--)
		x += far_pair(&kept);
	sink += x;
}

UNTRACED NO_SITE static void run_stacked(long calls)
{
	char text[] = TEXT;
	int x = 0;

	while (calls--)
		x += stacked(text);
	sink += x;
}

UNTRACED NO_SITE static void run_placed(long calls)
{
	int x = 0;

	while (calls--)
		x += placed(data);
	sink += x;
}

UNTRACED NO_SITE static void run_fixed(long calls)
{
	int x = 0;

	while (calls--)
		x += fixed(constant);
	sink += x;
}

UNTRACED NO_SITE static void run_fresh(long calls)
{
	static long at;
	int x = 0;

	while (calls--)
		x += fresh(pages + at++ % PAGES * PAGE);
	sink += x;
}

UNTRACED NO_SITE static void measure(const char *name, void (*loop)(long), long batches)
{
	double best = 1e18;

	while (batches--) {
		double start = now_ns(), spent;

		loop(BATCH);
		spent = now_ns() - start;
		best = spent < best ? spent : best;
	}
	printf("%s %.3f\n", name, best / BATCH);
}

UNTRACED NO_SITE int main(int argc, char **argv)
{
	long batches = argc > 1 ? atol(argv[1]) : 4000;

	pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long i = 0; i < PAGES; i++)
		memcpy(pages + i * PAGE, TEXT, sizeof(TEXT));
	measure("clock2", run_clock2, batches);
	measure("numbers", run_numbers, batches);
	measure("spans", run_spans, batches);
	measure("doubles", run_doubles, batches);
	measure("near_pair", run_near_pair, batches);
	measure("far_pair", run_far_pair, batches);
	measure("stacked", run_stacked, batches);
	measure("placed", run_placed, batches);
	measure("fixed", run_fixed, batches);
	measure("fresh", run_fresh, batches < PAGES / BATCH ? batches : PAGES / BATCH);
	return 0;
}
