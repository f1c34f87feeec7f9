/*
 * Shuts itself into a sandbox that lets it sleep, write and end, and kills it for any other system call: also for
 * restart_syscall(), with which the kernel lets an interrupted sleep go on.  Waits for SIGUSR1 before that; sleeps for
 * so many times 20 ms in there, and calls step() in between.  Ends with status 5.
 *
 *     sleeps TIMES
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

static int shut(void)
{
	static const int listed[] = {SYS_write, SYS_exit_group, SYS_rt_sigreturn, SYS_clock_nanosleep};
	struct sock_filter list[2 * sizeof(listed) / sizeof(listed[0]) + 2];
	struct sock_fprog program = {0, list};

	list[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
		list[program.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)listed[i], 0, 1);
		list[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	list[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	long times = argc > 1 ? strtol(argv[1], NULL, 10) : 1, n = 0;
	const struct timespec pause = {0, 20000000};
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	sigwait(&set, &number);
	if (shut())
		return 77;
	if (write(1, "shut\n", 5) != 5)
		_exit(1);
	for (long i = 0; i < times; i++) {
		syscall(SYS_clock_nanosleep, 0, 0, &pause, NULL);
		n = step(n);
	}
	if (n == times && write(1, "all was well\n", 13) != 13)
		_exit(1);
	_exit(5);
}
