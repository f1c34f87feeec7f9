// Functions with C++ names for the site tests: methods, overloads, templates, operators, a lambda.
#include <cstdio>
#include <string>

#define KEEP __attribute__((noinline))

namespace room
{
struct Widget {
	int value;
	KEEP explicit Widget(int v) : value(v)
	{
	}
	KEEP int turn(int by) const
	{
		return value + by;
	}
	KEEP int turn(const std::string &by) const
	{
		return value + static_cast<int>(by.size());
	}
	KEEP int operator()(int by) const
	{
		return value * by;
	}
};

template <typename T> KEEP T twice(T value)
{
	return value + value;
}
} // namespace room

namespace
{
KEEP int hidden(int x)
{
	return x + 1;
}
} // namespace

int main(int argc, char **)
{
	room::Widget widget(argc);
	auto local = [](int x) __attribute__((noinline))
	{
		return x - 1;
	};

	std::printf("%d %d %d %d %d %d\n", widget.turn(argc), widget.turn(std::string("abc")), widget(argc),
		    room::twice(argc), hidden(argc), local(argc));
	return 0;
}
