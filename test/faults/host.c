/*
 * Lets the n-th call of one libc function fail in the tool. test/e2e/faults.py preloads this library into the tool,
 * which is to run its command without it: the library takes itself out of the environment.
 *
 * CALLTAP_FAULTS is LOG:FUNCTION:N:ERRNO, and "hit" is appended to LOG; with N 0 nothing fails, and the name of each
 * call is appended.  Context: host.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
	char log[512], function[32];
	int nth, error, count;
} faults;

__attribute__((constructor)) static void read_environment(void)
{
	const char *value = getenv("CALLTAP_FAULTS");

	unsetenv("LD_PRELOAD");
	if (value)
		sscanf(value, "%511[^:]:%31[^:]:%d:%d", faults.log, faults.function, &faults.nth, &faults.error);
	unsetenv("CALLTAP_FAULTS");
}

static void say(const char *text)
{
	int (*next_open)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	int fd = next_open(faults.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	dprintf(fd, "%s\n", text);
	close(fd);
}

static int strikes(const char *function)
{
	if (!faults.log[0])
		return 0;
	if (!faults.nth)
		say(function);
	if (strcmp(function, faults.function) || __atomic_add_fetch(&faults.count, 1, __ATOMIC_SEQ_CST) != faults.nth)
		return 0;
	say("hit");
	errno = faults.error;
	return 1;
}

/* A function in front of libc's of the same name and type. */
#define IN_FRONT(type, name, parameters, arguments, failed)                                                            \
	type name parameters                                                                                           \
	{                                                                                                              \
		type(*next) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name);                                  \
                                                                                                                       \
		return strikes(#name) ? (failed) : next arguments;                                                     \
	}

IN_FRONT(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
IN_FRONT(void *, mmap, (void *at, size_t size, int prot, int flags, int fd, off_t offset),
	 (at, size, prot, flags, fd, offset), MAP_FAILED)
IN_FRONT(int, ftruncate, (int fd, off_t size), (fd, size), -1)
IN_FRONT(ssize_t, writev, (int fd, const struct iovec *vec, int count), (fd, vec, count), -1)
IN_FRONT(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
IN_FRONT(int, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size), -1)
IN_FRONT(int, listen, (int fd, int backlog), (fd, backlog), -1)
IN_FRONT(int, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), (fd, address, size, flags), -1)
IN_FRONT(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1)
IN_FRONT(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
IN_FRONT(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *size), (fd, level, name, value, size),
	 -1)
IN_FRONT(int, epoll_create1, (int flags), (flags), -1)
IN_FRONT(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event), (epoll, what, fd, event), -1)
IN_FRONT(int, epoll_wait, (int epoll, struct epoll_event *events, int count, int timeout),
	 (epoll, events, count, timeout), -1)
IN_FRONT(int, eventfd, (unsigned value, int flags), (value, flags), -1)
IN_FRONT(int, pipe2, (int fds[2], int flags), (fds, flags), -1)
IN_FRONT(pid_t, fork, (void), (), -1)
IN_FRONT(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
IN_FRONT(ssize_t, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags), -1)
IN_FRONT(int, pthread_create,
	 (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
	 (thread, attributes, start, argument), EAGAIN)

int open(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return strikes("open") ? -1 : next(path, flags, mode);
}
