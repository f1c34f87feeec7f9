/*
 * A program whose functions are known to the site tests: global, static, one
 * reached through a pointer, one that nothing uses, one with a loop at its
 * start, one that never returns twice but is called like one that does.
 */
#include <stdio.h>

#define KEEP __attribute__((noinline, noclone))

int global_one(int x);
int global_loop(int x);
int swapcontext(int x);
void discarded(void);
int (*pointer)(int);

KEEP int global_one(int x)
{
	__asm__ volatile("");
	return x * 3 + 1;
}

KEEP int global_loop(int x)
{
	volatile int y = x;

	while (y < 100)
		y += 3;
	return y;
}

static KEEP int static_one(int x)
{
	__asm__ volatile("");
	return x ^ 5;
}

static KEEP int static_two(int x)
{
	return printf("%d\n", x);
}

/* Not libc's, but its name decides. */
KEEP int swapcontext(int x)
{
	__asm__ volatile("");
	return x;
}

KEEP void discarded(void)
{
	puts("never called");
}

int main(int argc, char **argv)
{
	pointer = static_one;
	return static_two(global_one(argc) + global_loop(argc) + pointer(argc) + swapcontext(argc)) < 0;
}
