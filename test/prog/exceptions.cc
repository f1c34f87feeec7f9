/*
 * C++ exceptions: across traced and untraced frames and callbacks of libc, out of constructors, destructors and
 * function-try-blocks, thrown again, nested and kept for later; thousands in a loop; with the argument "threads" by
 * several threads at once.  With CORE only what the language's run-time library has, not C++'s standard library.
 */
#include <algorithm>
#include <exception>
#include <pthread.h>

#include "truth.h"

struct Bad {
	int value;
};

enum { THREADS = 4, ROUNDS = 10, LOOPS = 2000 };

static __thread int thrown;

TRACED static void note(int value)
{
	TRUTH();
	thrown += value;
}

TRACED static void fail(int value)
{
	TRUTH();
	throw Bad{value};
}

TRACED static int go_down(int depth)
{
	TRUTH();
	if (depth == 0)
		fail(depth + 1);
	return go_down(depth - 1) + 1;
}

/* As a C library would: it knows nothing of exceptions and has no site. */
extern "C" UNTRACED __attribute__((noinline)) int bridge(int (*function)(int), int argument)
{
	return function(argument) + 1;
}

TRACED static int over_bridge(int depth)
{
	TRUTH();
	return depth > 2 ? bridge(go_down, depth) : bridge(over_bridge, depth + 1) + 1;
}

UNTRACED __attribute__((noinline)) static int catch_untraced(int depth)
{
	try {
		return go_down(depth);
	} catch (const Bad &bad) {
		note(bad.value);
		return depth;
	}
}

TRACED static int catch_all(int depth)
{
	TRUTH();
	try {
		return over_bridge(depth);
	} catch (const Bad &bad) {
		note(bad.value);
	}
	return catch_untraced(depth);
}

TRACED static int compare(const void *a, const void *b)
{
	TRUTH();
	int left = *(const int *)a, right = *(const int *)b;

	if (left == 7 || right == 7)
		fail(7);
	return left - right;
}

TRACED static bool less(int left, int right)
{
	TRUTH();
	if (left == 4)
		fail(4);
	return left < right;
}

TRACED static void callbacks(void)
{
	TRUTH();
	int numbers[] = {5, 3, 9, 7, 1}, others[] = {6, 2, 4, 8};

	try {
		qsort(numbers, 5, sizeof(numbers[0]), compare);
	} catch (Bad &bad) {
		note(bad.value);
	}
	try {
		std::sort(others, others + 4, less);
	} catch (Bad &bad) {
		note(bad.value);
	}
}

struct Part {
	int number;

	TRACED explicit Part(int n = 0) : number(n)
	{
		make();
	}
	TRACED ~Part()
	{
		unmake();
	}
	TRACED void make(void)
	{
		TRUTH();
		if (number == 3)
			fail(number);
	}
	TRACED void unmake(void)
	{
		TRUTH();
	}
};

/* The third part's constructor throws, so the first two are destroyed before the constructor's own handler runs. */
struct Whole {
	int logged;
	Part first, second, third;

	TRACED Whole()
	try : logged((truth_line('>', "Whole"), 0)), first(1), second(2), third(3) {
	} catch (Bad &) {
		note(1);
		truth_line('<', "Whole");
	}
};

TRACED static void constructors(void)
{
	TRUTH();
	try {
		Whole whole;
	} catch (Bad &bad) {
		note(bad.value);
	}
	try {
		Part *parts = new Part[3]{Part(1), Part(2), Part(3)};
		delete[] parts;
	} catch (Bad &bad) {
		note(bad.value);
	}
}

struct Careful {
	TRACED ~Careful()
	{
		try {
			go_down(std::uncaught_exceptions());
		} catch (Bad &bad) {
			note(bad.value);
		}
	}
};

struct Careless {
	TRACED ~Careless() noexcept(false)
	{
		fail(2);
	}
};

TRACED static void destructors(void)
{
	TRUTH();
	try {
		Careful careful;
		fail(5);
	} catch (Bad &bad) {
		note(bad.value);
	}
	try {
		Part part(1);
		Careless careless;
	} catch (Bad &bad) {
		note(bad.value);
	}
}

TRACED static int whole_body(int depth)
try {
	truth_line('>', "whole_body");
	int result = go_down(depth);
	truth_line('<', "whole_body");
	return result;
} catch (Bad &bad) {
	note(bad.value);
	truth_line('<', "whole_body");
	return -1;
}

#ifndef CORE
TRACED static void wrap(int depth)
{
	TRUTH();
	try {
		go_down(depth);
	} catch (Bad &) {
		note(1);
		std::throw_with_nested(Bad{depth});
	}
}

TRACED static void unwrap(const std::nested_exception &nested)
{
	TRUTH();
	nested.rethrow_nested();
}

TRACED static void again(int times)
{
	TRUTH();
	try {
		if (times)
			again(times - 1);
		else
			wrap(1);
	} catch (...) {
		note(1);
		throw;
	}
}

TRACED static void nested(void)
{
	TRUTH();
	try {
		again(2);
	} catch (const std::nested_exception &outer) {
		try {
			unwrap(outer);
		} catch (Bad &bad) {
			note(bad.value);
		}
	}
}

TRACED static std::exception_ptr keep(int depth)
{
	TRUTH();
	try {
		go_down(depth);
	} catch (...) {
		return std::current_exception();
	}
	return nullptr;
}

TRACED static void release(const std::exception_ptr &kept)
{
	TRUTH();
	std::rethrow_exception(kept);
}

TRACED static void kept(void)
{
	TRUTH();
	std::exception_ptr both[] = {keep(0), keep(2)};

	for (const std::exception_ptr &one : both) {
		try {
			release(one);
		} catch (Bad &bad) {
			note(bad.value);
		}
	}
}
#endif

/* Not in the log: only counted. */
TRACED static int loop_down(int depth)
{
	if (depth == 0)
		throw depth;
	return loop_down(depth - 1) + 1;
}

TRACED static int loop(int times)
{
	int caught = 0;

	while (times--) {
		try {
			loop_down(4);
		} catch (int) {
			caught++;
		}
	}
	return caught;
}

TRACED static void every(void)
{
	TRUTH();
	catch_all(0);
	callbacks();
	constructors();
	destructors();
	whole_body(3);
#ifndef CORE
	nested();
	kept();
#endif
}

TRACED static void *work(void *)
{
	TRUTH();
	for (int i = 0; i < ROUNDS; i++)
		every();
	return (void *)(long)thrown;
}

TRACED static int threads(void)
{
	TRUTH();
	pthread_t all[THREADS];
	long total = 0;

	for (pthread_t &thread : all)
		pthread_create(&thread, nullptr, work, nullptr);
	for (pthread_t &thread : all) {
		void *result;

		pthread_join(thread, &result);
		total += (long)result;
	}
	return (int)total;
}

int main(int argc, char **)
{
	TRUTH();
	if (argc > 1) {
		printf("threads %d\n", threads());
		return 0;
	}
	every();
	printf("thrown %d loop %d\n", thrown, loop(LOOPS));
	return 0;
}
