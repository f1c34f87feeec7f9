/*
 * Shuts all its threads into a filter that forbids, by death, a few calls that it does not make itself, and goes on
 * calling until it is told to stop.  Prints "ready PID", and ends by SIGTERM as attachee.c does.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>

#include "truth.h"

static int stop; /* atomic */

TRACED static unsigned leaf(unsigned x)
{
	return x + 1;
}

TRACED static void *call(void *arg)
{
	const struct timespec pause = {0, 100000};

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 100; i++)
			leaf(i);
		nanosleep(&pause, NULL);
	}
	return arg;
}

UNTRACED static int shut_in(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0;
}

int main(void)
{
	pthread_t thread;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&thread, NULL, call, NULL) || shut_in())
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	sigwait(&set, &number);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("all was well\n");
	return 42;
}
