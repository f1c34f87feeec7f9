/*
 * Executes a program in the way that the first argument names, without an environment, and tells what became of each
 * process:
 *
 *     executes_static WAY PROGRAM [ARGUMENT...]
 *
 * "thread": a thread executes it that is not the initial one; "traces": children that this process traces; "stops":
 * children that are stopped, and told to go on, at random moments; "many": several at a time; "fails": what cannot be
 * executed leaves the process as it is, with the same error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 4, ROUNDS = 12 };

static char **command, *none[] = {NULL};

__attribute__((noipa)) static void leaf(int n)
{
	__asm__ volatile("" ::"r"(n));
}

static int result_of(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void *execute(void *argument)
{
	execve(command[0], command, none);
	perror("execve");
	_exit(99);
	return argument;
}

static pid_t begin(void)
{
	pid_t pid;

	leaf(1);
	pid = fork();

	if (!pid)
		execute(NULL);
	return pid;
}

static void by_thread(void)
{
	pid_t pid = fork();

	if (!pid) {
		pthread_t thread;

		pthread_create(&thread, NULL, execute, NULL);
		pthread_join(thread, NULL);
	}
	printf("thread: %d\n", result_of(pid));
}

/* The child is this process' tracee: it stops when it has executed the program. */
static void traces(void)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execute(NULL);
	}
	waitpid(pid, &status, 0);
	printf("traced: %d, %d\n", WIFSTOPPED(status), WSTOPSIG(status));
	ptrace(PTRACE_CONT, pid, 0, 0);
	printf("traced: %d\n", result_of(pid));
}

static void nap(long ns)
{
	const struct timespec time = {0, ns};

	nanosleep(&time, NULL);
}

static void stops(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = begin();
		int status = 0;

		nap(rand() % 40000000);
		kill(pid, SIGSTOP);
		if (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status)) {
			nap(rand() % 5000000);
			kill(pid, SIGCONT);
			printf("stopped: %d\n", result_of(pid));
		} else {
			printf("stopped: %d\n", WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status));
		}
	}
}

static void many(void)
{
	pid_t pids[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pids[i] = begin();
	for (int i = 0; i < CHILDREN; i++)
		printf("many: %d\n", result_of(pids[i]));
}

static void fails(void)
{
	for (int i = 0; i < 3; i++) {
		errno = 0;
		execve(command[0], command, none);
		leaf(errno);
		printf("fails: %s\n", strerror(errno));
	}
	printf("goes on: %d\n", result_of(fork() ? -1 : (_exit(3), 0)));
}

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count < 3)
		return 2;
	command = arguments + 2;
	if (!strcmp(arguments[1], "thread"))
		by_thread();
	else if (!strcmp(arguments[1], "traces"))
		traces();
	else if (!strcmp(arguments[1], "stops"))
		stops();
	else if (!strcmp(arguments[1], "many"))
		many();
	else if (!strcmp(arguments[1], "fails"))
		fails();
	else
		return 2;
	return 0;
}
