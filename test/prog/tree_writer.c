/*
 * Children that write into the tree of `calltap mount` before they make a traced call: tree_writer FOLDER CHILDREN.
 *
 * Each is forked while no function is on.  It has its own calls of leaf() recorded, and counts them in the file trace.
 * A signal handler runs all the time, without SA_RESTART: no call on the tree may come back because of it.  Once the
 * tree is gone, its tool was killed: children end well then, too.  Prints "ready PID", then a line for each child, and
 * "all was well".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRACED __attribute__((noinline, noclone))
#define CALLS  20
#define GONE   3 /* exit status: the tree is not there any more */

static volatile sig_atomic_t signals;

TRACED int leaf(int number)
{
	__asm__ volatile("" : "+r"(number));
	return number + 1;
}

static void on_alarm(int number)
{
	(void)number;
	signals = signals + 1;
}

static void check(int good, const char *what, const char *name)
{
	if (good)
		return;
	if (errno == ENOTCONN || errno == ECONNABORTED || errno == ENOENT || errno == ENODEV)
		_exit(GONE);
	fprintf(stderr, "%s %s: %s\n", what, name, strerror(errno));
	_exit(1);
}

static void put(const char *name, const char *text)
{
	const int fd = open(name, O_WRONLY | O_TRUNC);
	ssize_t size;

	check(fd >= 0, "open", name);
	size = write(fd, text, strlen(text));
	if (size >= 0 && (size_t)size != strlen(text))
		errno = ERANGE; /* a part of it */
	check(size == (ssize_t)strlen(text), "write", name);
	check(!close(fd), "close", name);
}

/* Lines of the file trace that are calls of leaf(). */
static int count_calls(void)
{
	static char text[1 << 16];
	const int fd = open("trace", O_RDONLY);
	size_t used = 0;
	ssize_t got;
	int found = 0;

	check(fd >= 0, "open", "trace");
	while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	check(!got, "read", "trace");
	close(fd);
	text[used] = 0;
	for (const char *at = text; (at = strstr(at, ": leaf <-")); at++)
		found++;
	return found;
}

static void be_child(void)
{
	const struct itimerval often = {{0, 700}, {0, 700}}, never = {0};
	char own[16];
	int found;

	snprintf(own, sizeof(own), "%d\n", (int)getpid());
	setitimer(ITIMER_REAL, &often, NULL);
	put("set_ftrace_filter", "leaf\n");
	put("set_ftrace_pid", own);
	put("current_tracer", "function\n");
	for (int i = 0; i < CALLS; i++)
		leaf(i);
	put("tracing_on", "0\n");
	setitimer(ITIMER_REAL, &never, NULL); /* a signal ends a wait for records */
	found = count_calls();
	setitimer(ITIMER_REAL, &often, NULL);
	put("current_tracer", "nop\n");
	put("tracing_on", "1\n");
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%d calls, %s\n", found, signals ? "and signals" : "no signal");
	fflush(stdout);
	_exit(found != CALLS ? 2 : 0);
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_alarm};
	const struct timespec soon = {0, 1000000};
	int status = 0;

	if (argc != 3 || sigaction(SIGALRM, &action, NULL))
		return 9;
	leaf(0);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (chdir(argv[1]) || access("current_tracer", F_OK))
		nanosleep(&soon, NULL);
	for (int i = atoi(argv[2]); i > 0 && !status; i--) {
		const pid_t child = fork();

		if (!child)
			be_child();
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 8;
	}
	if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == GONE)) {
		printf("a child has ended with %#x\n", (unsigned)status);
		return 7;
	}
	puts(status ? "the tree is gone, all was well" : "all was well");
	return 0;
}
