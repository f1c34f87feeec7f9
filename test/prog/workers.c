/*
 * A program whose work is done by children that it forks when SIGUSR1 comes: two that make calls and have forked one
 * more each, one that makes calls in two threads, and one that makes none.
 *
 * workers vforks: one more child, which sleeps in vfork() for ten seconds, as its own child does.
 *
 * Prints "ready PID", and "all was well" if all of them have ended well after SIGTERM.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STATUS	 42
#define CALLS	 100
#define PAUSE_NS 2000000
#define SLEEP_S	 10

static volatile sig_atomic_t starts, ends;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		starts = 1;
	else
		ends = 1;
}

__attribute__((noinline, noclone)) unsigned call(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

static void make_calls(void)
{
	const struct timespec pause = {0, PAUSE_NS};
	volatile unsigned x = 1;

	for (int i = 0; i < CALLS; i++)
		x = call(x);
	syscall(SYS_nanosleep, &pause, NULL);
}

static void *work(void *unused)
{
	while (!ends)
		make_calls();
	return unused;
}

/* Have the child end; 0: it has ended well. */
static int await(pid_t child)
{
	int status = 0;

	if (child < 0)
		return 1;
	kill(child, SIGTERM);
	while (waitpid(child, &status, 0) < 0)
		continue;
	return status != 0;
}

static int with_child(void)
{
	pid_t child = fork();

	work(NULL);
	return child ? await(child) : 0;
}

static int with_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL))
		return 1;
	work(NULL);
	pthread_join(thread, NULL);
	return 0;
}

static int silent(void)
{
	const struct timespec pause = {0, 10 * PAUSE_NS};

	while (!ends)
		syscall(SYS_nanosleep, &pause, NULL);
	return 0;
}

static int in_vfork(void)
{
	const struct timespec time = {SLEEP_S, 0};

	make_calls();
	if (!vfork()) {
		syscall(SYS_nanosleep, &time, NULL);
		_exit(0);
	}
	return with_thread();
}

int main(int argc, char **argv)
{
	static int (*const jobs[])(void) = {with_child, with_child, with_thread, silent, in_vfork};
	const int count = argc > 1 && !strcmp(argv[1], "vforks") ? 5 : 4;
	pid_t children[5];
	int failed = 0;

	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!starts && !ends)
		make_calls();
	for (int i = 0; i < count; i++) {
		children[i] = fork();
		if (!children[i])
			_exit(jobs[i]());
	}
	work(NULL);
	for (int i = 0; i < count; i++)
		failed |= await(children[i]);
	if (failed)
		return 1;
	printf("all was well\n");
	return STATUS;
}
