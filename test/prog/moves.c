/*
 * Moves between the two CPUs that its arguments name.  For each line "ROUNDS CALLS" on standard input it goes to the
 * first CPU and makes CALLS calls of a function there, then as many of another one on the second CPU, and all of it
 * ROUNDS times; then it prints the line.  With a third argument it first puts itself under a filter that kills it for
 * asking the kernel for its CPU, which it then does not.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static bool forbidden;

__attribute__((noinline)) int on_first(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

__attribute__((noinline)) int on_second(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 2;
}

static void go_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || (!forbidden && sched_getcpu() != cpu)) {
		printf("not on CPU %d\n", cpu);
		exit(1);
	}
}

static void forbid(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getcpu, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	forbidden = true;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		printf("no filter\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char line[64];
	int x = 0, rounds, calls;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 3)
		forbid();
	while (argc > 2 && fgets(line, sizeof(line), stdin) && sscanf(line, "%d %d", &rounds, &calls) == 2) {
		for (int round = 0; round < rounds; round++) {
			go_to(atoi(argv[1]));
			for (int i = 0; i < calls; i++)
				x = on_first(x);
			go_to(atoi(argv[2]));
			for (int i = 0; i < calls; i++)
				x = on_second(x);
		}
		printf("%s", line);
	}
	return 0;
}
