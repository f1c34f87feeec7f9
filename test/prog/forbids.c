/*
 * Works until it is told to stop (SIGTERM).  On SIGUSR1 it puts all its threads under a filter that kills it for one
 * thing only: giving memory back to a file (madvise, MADV_REMOVE), which it never does itself.
 *
 * Prints "ready PID", at the end "all was well".
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 20000, STATUS = 42 };

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

static int forbid(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_REMOVE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

int main(void)
{
	const struct timespec pause = {0, 1000000};
	sigset_t signals;
	long n = 0;
	int got;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	do {
		for (int i = 0; i < CALLS; i++)
			n = step(n);
		got = sigtimedwait(&signals, NULL, &pause);
		if (got == SIGUSR1 && forbid())
			return 1;
	} while (got != SIGTERM);
	if (n % CALLS)
		return 1;
	puts("all was well");
	return STATUS;
}
