/*
 * Runs until it is told to stop (SIGTERM) and checks its own work meanwhile: each call's result, frames that stay open
 * the whole time, and that no system call is interrupted, though the program has no signal handler.
 *
 *     attachee [THREADS] [busy] [forks]
 *
 * Prints "ready PID" when all threads run, at the end its findings; a wrong result ends it at once.  "busy": no
 * pauses; "forks": a thread that makes children, which do the same work for a while.  The functions have sites, but no
 * other code calls them: an attach finds threads in all of them.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "shapes.h"

#define THREADS_MAX 64
#define HELD	    40 /* frames that are open from before the attach to after the detach */

static struct {
	int stop; /* atomic */
	int busy;
	unsigned long rounds, waits; /* atomic */
	int pipe[2];
	sem_t never;
} shared;

UNTRACED static void die(const char *what, long value)
{
	printf("wrong: %s (%ld, %s)\n", what, value, strerror(errno));
	fflush(stdout);
	_exit(1);
}

UNTRACED static int stopping(void)
{
	return __atomic_load_n(&shared.stop, __ATOMIC_RELAXED);
}

TRACED static unsigned leaf_1(unsigned x)
{
	return x * 2654435761u + 1;
}

TRACED static unsigned leaf_2(unsigned x)
{
	return x * 2654435761u + 2;
}

TRACED static unsigned leaf_3(unsigned x)
{
	return x * 2654435761u + 3;
}

TRACED static unsigned recurse(unsigned depth)
{
	return depth ? recurse(depth - 1) + leaf_1(depth) - depth * 2654435761u : 0;
}

TRACED static unsigned tail(unsigned x)
{
	return last(x * 3);
}

TRACED static void once(unsigned x)
{
	if (leaf_1(x) + leaf_2(x) + leaf_3(x) != 3 * x * 2654435761u + 6)
		die("a leaf", x);
	if (recurse(x % 20) != x % 20)
		die("a recursion", x);
	if (tail(x) != ((x * 3) ^ 0x5a5a))
		die("a tail call", x);
	if (jump(x % 5) != 7)
		die("a longjmp", x);
	if (sum(4, 1.0, 2.5, 3.0, (double)(x % 100)) != 6.5 + x % 100)
		die("a variadic call", x);
}

TRACED static void *work(void *arg)
{
	for (unsigned x = (unsigned)(uintptr_t)arg; !stopping(); x++) {
		once(x);
		__atomic_add_fetch(&shared.rounds, 1, __ATOMIC_RELAXED);
		if (!shared.busy || x % 1000 == 0)
			usleep(500);
	}
	return NULL;
}

/* Frames that are open until the end: the innermost one waits for it. */
TRACED static unsigned hold(unsigned depth)
{
	char byte;

	if (depth)
		return hold(depth - 1) + depth;
	if (read(shared.pipe[0], &byte, 1) != 1)
		die("a read that nobody interrupts", 0);
	return leaf_3(0) - 3;
}

TRACED static void *hold_on(void *arg)
{
	unsigned found = hold(HELD);

	if (found != HELD * (HELD + 1) / 2)
		die("frames that were open", found);
	return arg;
}

UNTRACED static struct timespec in_ms(long ms)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_nsec += ms * 1000000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

/* Each of these ends by its time and by nothing else. */
TRACED static void wait_once(int epoll, int nobody)
{
	const struct timespec pause = {0, 3000000};
	struct timeval limit = {0, 3000};
	struct pollfd fd = {nobody, POLLIN, 0};
	struct epoll_event event;
	struct timespec until = in_ms(3);
	fd_set set;
	char byte;
	long got;

	if ((got = nanosleep(&pause, NULL)))
		die("nanosleep", got);
	if ((got = poll(&fd, 1, 3)))
		die("poll", got);
	if ((got = epoll_wait(epoll, &event, 1, 3)))
		die("epoll_wait", got);
	FD_ZERO(&set);
	FD_SET(nobody, &set);
	if ((got = select(nobody + 1, &set, NULL, NULL, &limit)))
		die("select", got);
	if ((got = recv(nobody, &byte, 1, 0)) != -1 || errno != EAGAIN)
		die("recv with a time limit", got);
	if ((got = sem_timedwait(&shared.never, &until)) != -1 || errno != ETIMEDOUT)
		die("sem_timedwait", got);
}

TRACED static void *wait_always(void *arg)
{
	const struct timeval limit = {0, 3000};
	struct epoll_event event = {.events = EPOLLIN};
	int pair[2], epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		die("a socket", 0);
	while (!stopping()) {
		wait_once(epoll, pair[0]);
		__atomic_add_fetch(&shared.waits, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

/* Children; no signal of theirs comes into the other threads' waits, for main() blocks it. */
TRACED static void *fork_often(void *arg)
{
	for (unsigned x = 0; !stopping(); x++) {
		pid_t child = fork();
		int status;

		if (!child) {
			for (unsigned i = 0; i < 100; i++)
				once(x + i);
			_exit(7);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			die("a child", child);
		usleep(5000);
	}
	return arg;
}

UNTRACED static int has_word(char **argv, const char *word)
{
	while (*argv && strcmp(*argv, word) != 0)
		argv++;
	return *argv != NULL;
}

TRACED static void wait_for_stop(const sigset_t *set)
{
	const struct timespec pause = {0, 5000000};
	unsigned x = 0;

	for (;;) {
		int got = sigtimedwait(set, NULL, &pause);

		if (got == SIGTERM)
			return;
		if (got != -1 || errno != EAGAIN)
			die("sigtimedwait", got);
		once(x++);
	}
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 0) : 3;
	pthread_t threads[THREADS_MAX + 2], forker;
	int forks = has_word(argv, "forks");
	sigset_t set, blocked;

	if (count > THREADS_MAX)
		return 2;
	shared.busy = has_word(argv, "busy");
	sem_init(&shared.never, 0, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	blocked = set;
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (pipe(shared.pipe))
		die("a pipe", 0);
	for (unsigned long i = 0; i < count + 2; i++) {
		void *(*start)(void *) = i < count ? work : i == count ? hold_on : wait_always;

		if (pthread_create(&threads[i], NULL, start, (void *)(i * 1000)))
			die("a thread", (long)i);
	}
	if (forks && pthread_create(&forker, NULL, fork_often, NULL))
		die("a thread", 0);
	while (!__atomic_load_n(&shared.waits, __ATOMIC_RELAXED) ||
	       (count && !__atomic_load_n(&shared.rounds, __ATOMIC_RELAXED)))
		usleep(1000);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	wait_for_stop(&set);
	__atomic_store_n(&shared.stop, 1, __ATOMIC_RELAXED);
	if (write(shared.pipe[1], "", 1) != 1)
		die("a write", 0);
	for (unsigned long i = 0; i < count + 2; i++)
		pthread_join(threads[i], NULL);
	if (forks)
		pthread_join(forker, NULL);
	printf("all was well\n");
	return 42;
}
