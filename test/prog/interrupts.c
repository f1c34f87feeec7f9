/*
 * System calls that wait, in a thread each, while others call enough to open rings and fill them again and again.  No
 * signal is sent, so none may be interrupted.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "truth.h"

enum { ROUNDS = 3, WAIT_MS = 15, CALLERS = 2 };

static const struct timespec wait_time = {0, WAIT_MS * 1000000};
static atomic_int waiting, interrupted;

UNTRACED static void check(long result)
{
	if (result < 0 && errno == EINTR)
		interrupted++;
}

TRACED static void *feed(void *end)
{
	for (int i = 0; i < ROUNDS; i++) {
		nanosleep(&wait_time, NULL); /* the byte is to come while the other thread waits */
		check(write((long)end, "x", 1));
	}
	return NULL;
}

TRACED static void *in_read(void *unused)
{
	int ends[2];
	char byte;
	pthread_t feeder;

	if (pipe(ends))
		_exit(97);
	pthread_create(&feeder, NULL, feed, (void *)(long)ends[1]);
	for (int i = 0; i < ROUNDS; i++)
		check(read(ends[0], &byte, 1));
	pthread_join(feeder, NULL);
	waiting--;
	return NULL;
}

TRACED static void *in_poll(void *unused)
{
	for (int i = 0; i < ROUNDS; i++)
		check(poll(NULL, 0, WAIT_MS));
	waiting--;
	return NULL;
}

TRACED static void *in_epoll(void *unused)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	for (int i = 0; i < ROUNDS; i++)
		check(epoll_wait(fd, &event, 1, WAIT_MS));
	waiting--;
	return NULL;
}

TRACED static void *in_nanosleep(void *unused)
{
	struct timespec left;

	for (int i = 0; i < ROUNDS; i++)
		check(nanosleep(&wait_time, &left));
	waiting--;
	return NULL;
}

TRACED static void *in_futex(void *unused)
{
	int word = 0;

	for (int i = 0; i < ROUNDS; i++)
		check(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &wait_time, NULL, 0));
	waiting--;
	return NULL;
}

TRACED static void *in_semop(void *unused)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf down = {0, -1, 0};

	for (int i = 0; i < ROUNDS; i++)
		check(semtimedop(id, &down, 1, &wait_time));
	semctl(id, 0, IPC_RMID);
	waiting--;
	return NULL;
}

TRACED static void *in_accept(void *unused)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	struct timeval limit = {0, WAIT_MS * 1000};

	bind(fd, (struct sockaddr *)&any, offsetof(struct sockaddr_un, sun_path)); /* a name of the kernel's choice */
	listen(fd, 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (int i = 0; i < ROUNDS; i++)
		check(accept(fd, NULL, NULL));
	waiting--;
	return NULL;
}

TRACED static int leaf(int x)
{
	return x + 1;
}

/* New threads all the time, each with a ring to take and to fill. */
TRACED static void *call_a_lot(void *unused)
{
	for (volatile int i = 0; i < 2000;)
		i = leaf(i);
	return NULL;
}

int main(void)
{
	void *(*const waits[])(void *) = {in_read, in_poll, in_epoll, in_nanosleep, in_futex, in_semop, in_accept};
	enum { WAITS = sizeof(waits) / sizeof(*waits) };
	pthread_t waiters[WAITS], callers[CALLERS];

	waiting = WAITS;
	for (int i = 0; i < WAITS; i++)
		pthread_create(&waiters[i], NULL, waits[i], NULL);
	while (waiting) {
		for (int i = 0; i < CALLERS; i++)
			pthread_create(&callers[i], NULL, call_a_lot, NULL);
		for (int i = 0; i < CALLERS; i++)
			pthread_join(callers[i], NULL);
	}
	for (int i = 0; i < WAITS; i++)
		pthread_join(waiters[i], NULL);
	printf("interrupted %d\n", interrupted);
	return 0;
}
