/*
 * dlsym and dlopen look at their return address to find the object that calls them; here they are called in tail
 * position: directly, through other functions that end in a tail call, and from a part that the compiler may put
 * elsewhere.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "cpu.h"
#include "truth.h"

TRACED static void *next_of(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

TRACED static void *next_by_way(const char *name)
{
	return next_of(name + 1);
}

TRACED static void *next_if_short(const char *name, int length)
{
	if (__builtin_expect(length > 30, 0)) {
		fprintf(stderr, "%s is long\n", name);
		return dlsym(RTLD_NEXT, name + length / 2);
	}
	return (void *)name;
}

TRACED static void *next_version(const char *name)
{
	return dlvsym(RTLD_NEXT, name, CPU_GLIBC_BASE);
}

TRACED static void *open_it(const char *name)
{
	return dlopen(name, RTLD_NOW);
}

TRACED static int other(int x)
{
	TRUTH();
	return x + 1;
}

TRACED static void show(const char *what, const void *found)
{
	printf("%s: %s\n", what, found ? "found" : dlerror());
}

int main(int argc, char **argv)
{
	TRUTH();
	show("next_of", next_of("malloc"));
	show("next_by_way", next_by_way("_malloc"));
	show("next_if_short", next_if_short("0123456789012345678901234567malloc", 56));
	show("next_version", next_version("malloc"));
	show("open_it", open_it("libc.so.6"));
	return other(argc);
}
