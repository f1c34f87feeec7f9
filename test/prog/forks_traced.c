/*
 * A library that is loaded before others: fork() of a program that nobody prepared calls a function that can be traced.
 * That is called for each fork before it is made.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void about_to_fork(void)
{
	__asm__ volatile("");
}

pid_t fork(void)
{
	pid_t (*next)(void) = (__typeof__(next))dlsym(RTLD_NEXT, "fork");

	about_to_fork();
	return next();
}
