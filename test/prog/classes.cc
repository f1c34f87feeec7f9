/*
 * C++ under trace: methods, virtual calls, templates, lambdas, and exceptions that pass through traced frames, are
 * caught, changed and thrown again.
 */
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "truth.h"

class Shape
{
      public:
	virtual ~Shape() = default;
	TRACED virtual double area() const
	{
		TRUTH();
		return 0;
	}
};

class Square : public Shape
{
      public:
	explicit Square(double side) : side_(side)
	{
	}
	TRACED double area() const override
	{
		TRUTH();
		return side_ * side_;
	}

      private:
	double side_;
};

template <typename T> TRACED static T largest(const std::vector<T> &values)
{
	TRUTH();
	T best = values.front();
	for (const T &value : values)
		if (best < value)
			best = value;
	return best;
}

namespace deep
{
struct Guard {
	TRACED void release()
	{
		TRUTH();
	}
	~Guard()
	{
		release();
	}
};

TRACED static int thrower(int depth)
{
	TRUTH();
	Guard guard;
	if (depth == 0)
		throw std::runtime_error("bottom");
	return thrower(depth - 1) + 1;
}

TRACED static int middle(int depth)
{
	TRUTH();
	try {
		return thrower(depth);
	} catch (const std::runtime_error &error) {
		throw std::logic_error(std::string("over ") + error.what());
	}
}
} // namespace deep

TRACED static int again(int depth)
{
	TRUTH();
	try {
		return deep::middle(depth);
	} catch (...) {
		throw;
	}
}

TRACED static std::string caught(int depth)
{
	TRUTH();
	try {
		return std::to_string(again(depth));
	} catch (const std::logic_error &error) {
		return error.what();
	}
}

TRACED static int apply(const std::function<int(int)> &function, int value)
{
	TRUTH();
	return function(value);
}

int main()
{
	TRUTH();
	Square square(3);
	const Shape *shape = &square;
	int calls = 0;

	printf("area %.1f\n", shape->area());
	printf("largest %d %s\n", largest<int>({3, 9, 4}), largest<std::string>({"x", "abc"}).c_str());
	for (int i = 0; i < 20; i++)
		printf("%s\n", caught(i % 7).c_str());
	printf("apply %d\n", apply([&](int x) { return x + ++calls; }, 5));
	return calls;
}
