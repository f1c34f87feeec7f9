/*
 * C++20 coroutines: a generator, one that runs another and is resumed within it, one destroyed in the middle, and an
 * exception through a coroutine. Their frames are on the heap; each resumption is a call on the thread's own stack.
 */
#if defined(__clang__) && !defined(__cpp_impl_coroutine)
#define __cpp_impl_coroutine 201902L /* clang 14 has it, and does not say so to libstdc++ */
#endif
#include <coroutine>
#include <stdexcept>

#include "truth.h"

static long total;

TRACED static long leaf(long x)
{
	TRUTH();
	total += x;
	return x * 3 + 1;
}

struct Noisy {
	UNTRACED explicit Noisy(int n) : n(n)
	{
	}
	TRACED ~Noisy()
	{
		TRUTH();
		leaf(n);
	}
	int n;
};

struct Generator {
	struct promise_type {
		UNTRACED Generator get_return_object()
		{
			return Generator{std::coroutine_handle<promise_type>::from_promise(*this)};
		}
		UNTRACED std::suspend_always initial_suspend() noexcept
		{
			return {};
		}
		UNTRACED std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		TRACED std::suspend_always yield_value(long next)
		{
			TRUTH();
			value = leaf(next);
			return {};
		}
		UNTRACED void return_void()
		{
		}
		UNTRACED void unhandled_exception()
		{
			throw;
		}
		long value = 0;
	};
	UNTRACED explicit Generator(std::coroutine_handle<promise_type> handle) : handle(handle)
	{
	}
	UNTRACED Generator(Generator &&other) noexcept : handle(other.handle)
	{
		other.handle = nullptr;
	}
	UNTRACED ~Generator()
	{
		if (handle)
			handle.destroy();
	}
	std::coroutine_handle<promise_type> handle;
};

TRACED static bool next(Generator &generator)
{
	TRUTH();
	generator.handle.resume();
	return !generator.handle.done();
}

static Generator count_to(long n)
{
	Noisy first(1);
	for (long i = 0; i < n; i++)
		co_yield i;
	Noisy last(2);
}

static Generator twice(long n)
{
	Noisy noisy(3);
	Generator inner = count_to(n);
	while (next(inner))
		co_yield inner.handle.promise().value;
}

static Generator failing(long n)
{
	Noisy noisy(4);
	co_yield leaf(n);
	throw std::runtime_error("failed");
}

TRACED static long drain(Generator &generator, int most)
{
	TRUTH();
	long sum = 0;
	while (most-- && next(generator))
		sum += generator.handle.promise().value;
	return sum;
}

TRACED static long catch_failing()
{
	TRUTH();
	Generator generator = failing(5);
	try {
		return drain(generator, 10);
	} catch (const std::runtime_error &error) {
		return leaf(7);
	}
}

TRACED static long left_in_the_middle()
{
	TRUTH();
	Generator generator = twice(10);
	return drain(generator, 3);
}

int main()
{
	TRUTH();
	Generator counted = count_to(6), nested = twice(4);
	long sums[] = {drain(counted, 100), drain(nested, 100), catch_failing(), left_in_the_middle()};
	printf("%ld %ld %ld %ld, total %ld\n", sums[0], sums[1], sums[2], sums[3], total);
	return 0;
}
