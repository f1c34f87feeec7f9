/*
 * Makes system calls that the kernel refuses, or that change nothing; then goes on, with a new thread too: an agent
 * that had made ready for their effect must be back at work.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "truth.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

TRACED static int work(int depth)
{
	TRUTH();
	return depth ? work(depth - 1) + 1 : 0;
}

static void *in_a_thread(void *arg)
{
	work(5);
	return arg;
}

/* A program that ends without an answer is none: EINVAL. */
TRACED static int load_broken_filter(const char *way)
{
	TRUTH();
	struct sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
	struct sock_fprog program = {1, steps};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!strcmp(way, "prctl"))
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* The time namespace that we are in already: only a process of one thread may. */
TRACED static int enter_own_time(void)
{
	TRUTH();
	int fd = open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC), ret = setns(fd, CLONE_NEWTIME);

	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	TRUTH();
	const char *way = argc > 1 ? argv[1] : "prctl";
	pthread_t thread;
	int ret;

	work(3);
	errno = 0;
	ret = !strcmp(way, "setns") ? enter_own_time() : load_broken_filter(way);
	printf("%s: %d, %s\n", way, ret, strerror(errno));
	work(4);
	if (pthread_create(&thread, NULL, in_a_thread, NULL))
		return 1;
	pthread_join(thread, NULL);
	work(2);
	return 0;
}
