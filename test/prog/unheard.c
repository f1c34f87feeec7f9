/*
 * Forked children that make no traced call before they are told to.
 *
 * Prints "ready PID" and takes commands from its input, a line each, which it answers when all is done:
 *
 *     fork    a child, with a second thread, and a child of that one, which has all signals blocked
 *     call    leaf() once in each process; prints the number of calls so far
 *     end     ends; prints "all was well" if each process has ended well
 *
 * Children wait in read(), which must not come back for another reason than a command.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 64 /* an even number */
#define TRACED	     __attribute__((noinline, noclone))

struct child {
	int commands[2], answers[2];
	pid_t pid;
};

static struct child children[CHILDREN_MAX];
static unsigned count, calls;

TRACED int leaf(int number)
{
	__asm__ volatile("" : "+r"(number));
	return number + 1;
}

static void *idle(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

/* A child's life: obey, and end with a status that says what went wrong. */
static void obey(const struct child *child, pid_t own_child)
{
	int status = 0;
	char command = 'f';

	if (write(child->answers[1], &command, 1) != 1)
		_exit(5);
	while (read(child->commands[0], &command, 1) == 1) {
		if (command == 'e' && own_child && (waitpid(own_child, &status, 0) != own_child || status))
			_exit(4);
		if (command == 'e')
			_exit(0);
		if (leaf(1) != 2 || write(child->answers[1], &command, 1) != 1)
			_exit(5);
	}
	_exit(6);
}

static void be_child(unsigned first)
{
	pthread_t thread;
	sigset_t all;
	pid_t pid;

	if (pthread_create(&thread, NULL, idle, NULL))
		_exit(7);
	pid = fork();
	if (!pid) {
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		obey(&children[first + 1], 0);
	}
	obey(&children[first], pid);
}

static int make_children(void)
{
	char answer;

	for (unsigned i = 0; i < 2; i++)
		if (count + i == CHILDREN_MAX || pipe(children[count + i].commands) ||
		    pipe(children[count + i].answers))
			return 2;
	children[count].pid = fork();
	if (!children[count].pid)
		be_child(count);
	for (unsigned i = 0; i < 2; i++)
		if (read(children[count + i].answers[0], &answer, 1) != 1)
			return 3;
	count += 2;
	return 0;
}

static int call_all(void)
{
	char answer;

	leaf(1);
	calls++;
	for (unsigned i = 0; i < count; i++) {
		if (write(children[i].commands[1], "c", 1) != 1 || read(children[i].answers[0], &answer, 1) != 1)
			return 3;
		calls++;
	}
	return 0;
}

static int end_all(void)
{
	int status;

	for (unsigned i = count; i-- > 0;)
		if (write(children[i].commands[1], "e", 1) != 1)
			return 8;
	for (unsigned i = 0; i < count; i += 2)
		if (waitpid(children[i].pid, &status, 0) != children[i].pid || status)
			return 9;
	puts("all was well");
	return 0;
}

int main(void)
{
	char line[64];
	int ret = 0;

	leaf(0);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!ret && fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "end\n"))
			return end_all();
		ret = !strcmp(line, "fork\n") ? make_children() : call_all();
		printf("%u\n", calls);
		fflush(stdout);
	}
	return ret ? ret : 1;
}
