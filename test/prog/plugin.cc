/*
 * A program that loads a second object, made from this same source with PLUGIN: constructors of objects and resolvers
 * of IFUNCs run inside dlopen, exceptions pass from one object to the other and back, both have functions of the same
 * names, and what one registered runs when it is unloaded or at the end.
 */
#include <dlfcn.h>

#include "truth.h"

struct Bad {
	int value;
};

typedef int step(int);
typedef int entry(step *, int);

/* In both objects, and not the same. */
TRACED static void note(const char *what)
{
	TRUTH();
	printf("%s\n", what);
}

/* In both objects, and one: the program's, when the loader gives it to both. */
template <typename T> TRACED T twice(T value)
{
	TRUTH();
	return value * 2;
}

struct Static {
	TRACED void made(void)
	{
		TRUTH();
		note("made");
	}
	TRACED void unmade(void)
	{
		TRUTH();
		note("unmade");
	}
	Static()
	{
		made();
	}
	~Static()
	{
		unmade();
	}
};

static Static object;
#ifdef PLUGIN
__attribute__((init_priority(200))) static Static earlier;

extern "C" TRACED int added(int a, int b)
{
	TRUTH();
	return a + b;
}

/* By now the agent knows this object: the resolver may be in the trace, but cannot be in the log. */
extern "C" TRACED int (*resolve(void))(int, int)
{
	return added;
}

extern "C" __attribute__((visibility("hidden"))) int add(int a, int b);
#ifndef LEFT_ALONE
extern "C" int add(int a, int b) __attribute__((ifunc("resolve")));
#else
extern "C" int add(int a, int b)
{
	return added(a, b);
}
#endif

/* Calls back into the program, which throws. */
extern "C" TRACED int plugin_entry(step *function, int value)
{
	TRUTH();
	try {
		return twice(add(function(value), 1));
	} catch (Bad &bad) {
		note("passed on");
		if (bad.value > 1)
			throw;
		throw Bad{bad.value + 100};
	}
}
#else
TRACED static int checked(int value)
{
	TRUTH();
	if (value)
		throw Bad{value};
	return twice(value + 1);
}

TRACED static int use(void *library, int value)
{
	TRUTH();
	entry *function = (entry *)dlsym(library, "plugin_entry");

	try {
		return function(checked, value);
	} catch (Bad &bad) {
		note("caught");
		return bad.value;
	}
}

TRACED static int load(const char *path, bool stays)
{
	TRUTH();
	void *library = dlopen(path, RTLD_NOW | (stays ? RTLD_NODELETE : 0));
	int sum = 0;

	if (!library) {
		printf("%s\n", dlerror());
		return -1;
	}
	for (int value = 0; value < 3; value++)
		sum = sum * 1000 + use(library, value);
	dlclose(library);
	return sum;
}

int main(int argc, char **argv)
{
	TRUTH();
	for (int i = 0; argc > 1 && i < 3; i++)
		printf("sum %d\n", load(argv[1], i == 2));
	return 0;
}
#endif
