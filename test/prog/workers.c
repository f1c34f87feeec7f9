/*
 * A program whose work is done by children that it forks when SIGUSR1 comes: two that make calls and have forked one
 * more each, one that makes calls in two threads, and one that makes none.
 *
 * workers storms: it forks children from the start on, every few milliseconds, and every other child forks one more and
 * ends; half of those that stay make calls.
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
#define STORM	 150
#define STORM_US 5000

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

static int be_one_of_many(int number)
{
	if (number % 2 && fork())
		_exit(0);
	return number % 4 < 2 ? silent() : work(NULL) != NULL;
}

/* All are of one process group, which nobody else is of. */
static int storms(void)
{
	int status, failed = 0;

	for (int i = 0; i < STORM && !ends; i++) {
		pid_t child = fork();

		if (!child)
			_exit(be_one_of_many(i));
		failed |= child < 0;
		usleep(STORM_US);
	}
	work(NULL);
	kill(0, SIGTERM);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}

static int end(int failed)
{
	if (failed)
		return 1;
	printf("all was well\n");
	return STATUS;
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
	if (argc > 1 && !strcmp(argv[1], "storms"))
		return end(storms());
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
	return end(failed);
}
