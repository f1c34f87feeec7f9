/* A library for loads.c: with a constructor and a destructor, which are traced from their first run on. */
#include "truth.h"

TRACED static int helper(int x)
{
	TRUTH();
	return x * 3;
}

__attribute__((constructor)) TRACED static void library_opened(void)
{
	TRUTH();
	helper(1);
}

__attribute__((destructor)) TRACED static void library_closed(void)
{
	TRUTH();
	helper(2);
}

TRACED int library_answer(int x)
{
	TRUTH();
	return helper(x) + 1;
}
