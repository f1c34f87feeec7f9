/*
 * Calls of a function by threads that are named while they run, and by processes that are forked by the C library and
 * by a system call, from threads and from others' children.  Each says the ids and the name that the kernel has of it,
 * and how many calls it has made under them: "PID TID NAME CALLS", with tabs.
 *
 *     who_calls [libc]     libc: no forks but the C library's
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };

static volatile long kept;

__attribute__((noinline)) int work(int number)
{
	kept += number;
	return number;
}

static void make_calls(int calls)
{
	char name[16], line[100];
	ssize_t written;

	prctl(PR_GET_NAME, name);
	for (int i = 0; i < calls; i++)
		work(i);
	snprintf(line, sizeof(line), "%ld\t%ld\t%s\t%d\n", syscall(SYS_getpid), syscall(SYS_gettid), name, calls);
	written = write(1, line, strlen(line));
	(void)written;
}

static void *run(void *arg)
{
	int number = (int)(long)arg;
	char name[16];

	make_calls(5);
	snprintf(name, sizeof(name), "worker-%d", number);
	prctl(PR_SET_NAME, name);
	make_calls(100 + number);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* raw: fork without the C library, which then does not know its thread's new id. */
static void *fork_here(void *raw)
{
	long child = raw ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();

	if (!child) {
		make_calls(50);
		if (!raw)
			run_threads();
		if (!fork()) {
			make_calls(7);
			_exit(0);
		}
		wait(NULL);
		make_calls(1);
		_exit(0);
	}
	wait(NULL);
	make_calls(3);
	return NULL;
}

int main(int argc, char **argv)
{
	make_calls(20);
	run_threads();
	for (long raw = 0; raw < (argc > 1 ? 1 : 2); raw++) {
		pthread_t thread;

		fork_here((void *)raw);
		pthread_create(&thread, NULL, fork_here, (void *)raw);
		pthread_join(thread, NULL);
	}
	return 0;
}
