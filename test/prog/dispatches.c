/*
 * A program that answers system calls itself, as some emulators do (PR_SET_SYSCALL_USER_DISPATCH): while a byte says
 * so, each call of its thread is a SIGSYS.  It makes one that no kernel has, and traced calls around it; any other is
 * an error.
 *
 *     dispatches [ROUNDS]    so many rounds, or until SIGTERM
 *
 * Without ROUNDS it prints "ready PID".  In the end it prints "all was well", status 42; 77: the kernel cannot do it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "truth.h"

#define STATUS	     42
#define OWN	     5000 /* number of the call that is made */
#define ANSWER	     4711
#define CALLS	     50
#define SET_DISPATCH 59 /* PR_SET_SYSCALL_USER_DISPATCH */

static volatile char selector; /* 1: calls are dispatched */
static volatile int others;

TRACED unsigned call(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

TRACED unsigned calls(unsigned x)
{
	for (int i = 0; i < CALLS; i++)
		x = call(x);
	return x;
}

#ifdef __x86_64__
UNTRACED static void on_call(int number, siginfo_t *info, void *context)
{
	(void)number;
	selector = 0;
	others += info->si_syscall != OWN;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = ANSWER;
}

/* Not by libc: errno is to stay out of it. */
UNTRACED static long make_call(void)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"((long)OWN) : "rcx", "r11", "memory");
	return result;
}
#else
UNTRACED static void on_call(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
}

UNTRACED static long make_call(void)
{
	return ANSWER;
}
#endif

/* SIGTERM stays blocked: the end of a handler is a system call, too. */
UNTRACED static int is_over(void)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, SIGTERM);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : -1;
	struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
	volatile unsigned x = 1;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGSYS, &action, NULL);
	x = calls(x);
	if (prctl(SET_DISPATCH, 1, 0, 0, &selector))
		return 77;
	if (rounds < 0)
		printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (rounds < 0 ? !is_over() : rounds-- > 0) {
		selector = 1;
		x = calls(x);
		others += make_call() != ANSWER;
		selector = 0;
	}
	if (others) {
		printf("%d other calls\n", others);
		return 1;
	}
	printf("all was well\n");
	return STATUS;
}
