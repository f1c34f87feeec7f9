/*
 * Shuts all its threads into a filter that forbids, by death, a few calls that it does not make itself, and goes on
 * calling until it is told to stop.  Prints "ready PID", and ends by SIGTERM as attachee.c does.
 *
 *     shut children N    N children, one after the other, do so right behind their first traced call, each in a network
 *                        namespace of its own, where the tool cannot be reached.  Prints how many ended badly
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

/* 0, or a status that tells what went wrong. */
UNTRACED static int one_child(void)
{
	long pid = syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER | CLONE_NEWNET, 0, 0, 0, 0);
	int status;

	if (!pid) {
		leaf(1);
		if (shut_in())
			_exit(77);
		for (unsigned i = 0; i < 100; i++)
			leaf(i);
		usleep(10000); /* the agent's thread goes on meanwhile */
		_exit((int)leaf(41));
	}
	if (pid < 0 || waitpid((pid_t)pid, &status, 0) != pid)
		return 77;
	return WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : status != 42 << 8;
}

UNTRACED static int children(int count)
{
	int bad = 0, status;

	for (int i = 0; i < count; i++) {
		status = one_child();
		if (status == 77)
			return status;
		bad += status;
	}
	printf("%d of %d ended badly\n", bad, count);
	return bad != 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	sigset_t set;
	int number;

	if (argc > 2)
		return children(atoi(argv[2]));
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
