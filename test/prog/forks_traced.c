/*
 * A library that is loaded before others: fork() and execve() of a program that nobody prepared call a function first
 * that can be traced and has the kernel's name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void _do_fork(void)
{
	__asm__ volatile("");
}

__attribute__((noinline, noclone)) void do_execve(void)
{
	__asm__ volatile("");
}

pid_t fork(void)
{
	pid_t (*next)(void) = (__typeof__(next))dlsym(RTLD_NEXT, "fork");

	_do_fork();
	return next();
}

int execve(const char *path, char *const *argv, char *const *envp)
{
	int (*next)(const char *, char *const *, char *const *) = (__typeof__(next))dlsym(RTLD_NEXT, "execve");

	do_execve();
	return next(path, argv, envp);
}
