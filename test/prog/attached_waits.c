/*
 * Threads that wait in every way there is, and look at what each call returns:
 * never EINTR, never early, never with something else than without a stop.
 * Ends when its standard input does; says "ok" and how many waits there were.
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 40
#define WAIT_NS (WAIT_MS * 1000000ll)

static int over, wrong;
static unsigned long waits;

static long long now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static struct timespec later(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	ts.tv_nsec += WAIT_NS;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	return ts;
}

static const struct timespec step = {0, WAIT_NS};

/* Each returns 0 if its call timed out as it should; errno is the call's. */
static int do_epoll_wait(int fd)
{
	struct epoll_event event;

	return epoll_wait(fd, &event, 1, WAIT_MS);
}

static int do_epoll_pwait(int fd)
{
	struct epoll_event event;
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(fd, &event, 1, WAIT_MS, &none);
}

static int do_poll(int fd)
{
	struct pollfd poll_fd = {fd, POLLIN, 0};

	return poll(&poll_fd, 1, WAIT_MS);
}

static int do_ppoll(int fd)
{
	struct pollfd poll_fd = {fd, POLLIN, 0};
	sigset_t none;

	sigemptyset(&none);
	return ppoll(&poll_fd, 1, &step, &none);
}

static int do_select(int fd)
{
	struct timeval time = {0, WAIT_MS * 1000};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &time);
}

static int do_nanosleep(int fd)
{
	return nanosleep(&step, NULL);
}

static int do_clock_nanosleep(int fd)
{
	struct timespec at = later(CLOCK_MONOTONIC);

	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	return errno;
}

static int do_sem_timedwait(int fd)
{
	struct timespec at = later(CLOCK_REALTIME);
	sem_t sem;

	sem_init(&sem, 0, 0);
	return sem_timedwait(&sem, &at) && errno == ETIMEDOUT ? 0 : -1;
}

static int do_cond_timedwait(int fd)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec at = later(CLOCK_REALTIME);
	int ret;

	pthread_mutex_lock(&mutex);
	ret = pthread_cond_timedwait(&cond, &mutex, &at);
	pthread_mutex_unlock(&mutex);
	errno = ret;
	return ret != ETIMEDOUT;
}

static int do_futex(int fd)
{
	int word = 0;

	return syscall(SYS_futex, &word, 0, 0, &step, NULL, 0) && errno == ETIMEDOUT ? 0 : -1;
}

static int do_semtimedop(int fd)
{
	static int id = -1;
	struct sembuf operation = {0, -1, 0};

	if (id < 0) {
		id = semget(IPC_PRIVATE, 1, 0600);
		if (id < 0)
			return -1;
	}
	return semtimedop(id, &operation, 1, &step) && errno == EAGAIN ? 0 : -1;
}

static int do_sigtimedwait(int fd)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &step) < 0 && errno == EAGAIN ? 0 : -1;
}

static int do_recv(int fd)
{
	struct timeval time = {0, WAIT_MS * 1000};
	int pair[2], ret;
	char byte;

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
		return -1;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	ret = recv(pair[0], &byte, 1, 0) < 0 && errno == EAGAIN ? 0 : -1;
	close(pair[0]);
	close(pair[1]);
	return ret;
}

static int do_accept(int fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval time = {0, WAIT_MS * 1000};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), ret;

	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	if (bind(listener, (void *)&address, sizeof(sa_family_t)) || listen(listener, 1))
		return -1;
	ret = accept(listener, NULL, NULL) < 0 && errno == EAGAIN ? 0 : -1;
	close(listener);
	return ret;
}

static int do_io_getevents(int fd)
{
	struct timespec time = step;
	struct io_event event;
	aio_context_t context = 0;
	long ret;

	if (syscall(SYS_io_setup, 1, &context))
		return nanosleep(&step, NULL); /* a kernel without */
	ret = syscall(SYS_io_getevents, context, 1, 1, &event, &time);
	syscall(SYS_io_destroy, context);
	return (int)ret;
}

/* A byte that another process sends when the time is over. */
static int do_read(int fd)
{
	int pipe_fds[2];
	char byte;
	ssize_t got;
	pid_t pid;

	if (pipe(pipe_fds))
		return -1;
	pid = fork();
	if (!pid) {
		nanosleep(&step, NULL);
		_exit(write(pipe_fds[1], "x", 1) != 1);
	}
	got = read(pipe_fds[0], &byte, 1);
	if (waitpid(pid, NULL, 0) != pid)
		return -1;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return got == 1 ? 0 : -1;
}

static int do_waitpid(int fd)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		nanosleep(&step, NULL);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && !status ? 0 : -1;
}

static const struct {
	const char *name;
	int (*wait)(int fd);
	int needs_epoll;
	clockid_t clock; /* clock by which the kernel takes the time; the coarse one advances with the kernel's ticks */
} ways[] = {
	{"epoll_wait", do_epoll_wait, 1, CLOCK_MONOTONIC},
	{"epoll_pwait", do_epoll_pwait, 1, CLOCK_MONOTONIC},
	{"poll", do_poll, 0, CLOCK_MONOTONIC},
	{"ppoll", do_ppoll, 0, CLOCK_MONOTONIC},
	{"select", do_select, 0, CLOCK_MONOTONIC},
	{"nanosleep", do_nanosleep, 0, CLOCK_MONOTONIC},
	{"clock_nanosleep", do_clock_nanosleep, 0, CLOCK_MONOTONIC},
	{"sem_timedwait", do_sem_timedwait, 0, CLOCK_MONOTONIC},
	{"pthread_cond_timedwait", do_cond_timedwait, 0, CLOCK_MONOTONIC},
	{"futex", do_futex, 0, CLOCK_MONOTONIC},
	{"semtimedop", do_semtimedop, 0, CLOCK_MONOTONIC},
	{"sigtimedwait", do_sigtimedwait, 0, CLOCK_MONOTONIC},
	{"recv", do_recv, 0, CLOCK_MONOTONIC_COARSE},
	{"accept", do_accept, 0, CLOCK_MONOTONIC_COARSE},
	{"io_getevents", do_io_getevents, 0, CLOCK_MONOTONIC},
	{"read", do_read, 0, CLOCK_MONOTONIC},
	{"waitpid", do_waitpid, 0, CLOCK_MONOTONIC},
};
#define WAYS		   (sizeof(ways) / sizeof(ways[0]))
#define WAYS_WITH_CHILDREN 2 /* the last ones */

static void *wait_on(void *argument)
{
	size_t way = (size_t)argument;
	int event = eventfd(0, 0), fd = event;

	if (ways[way].needs_epoll) {
		struct epoll_event watched = {.events = EPOLLIN};

		fd = epoll_create1(0);
		epoll_ctl(fd, EPOLL_CTL_ADD, event, &watched);
	}
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		long long began = now(ways[way].clock), took;
		int ret;

		errno = 0;
		ret = ways[way].wait(fd);
		took = now(ways[way].clock) - began;
		/* A time in ticks may end a little early. */
		if (ret || took < WAIT_NS - 5000000) {
			printf("%s: %d, %s, after %lld us\n", ways[way].name, ret, strerror(errno), took / 1000);
			__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
		}
		__atomic_fetch_add(&waits, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[WAYS];
	sigset_t blocked;
	size_t first = 0, count = WAYS;
	char byte;

	if (argc > 1 && !strcmp(argv[1], "childless")) {
		count = WAYS - WAYS_WITH_CHILDREN;
	} else if (argc > 1) {
		while (first < WAYS && strcmp(ways[first].name, argv[1]))
			first++;
		if (first == WAYS)
			return 2;
		count = first + 1;
	}
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = first; i < count; i++)
		if (pthread_create(&threads[i], NULL, wait_on, (void *)i))
			return 2;
	printf("ready\n");
	while (read(0, &byte, 1) > 0)
		;
	if (errno == EINTR)
		wrong = 1;
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (size_t i = first; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%s %lu\n", wrong ? "wrong" : "ok", waits);
	return wrong;
}
