/*
 * Finds the sender of a signal among the descendants of this process; see sender.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sender.h"

#define GENERATIONS_MAX 1000 /* processes that end meanwhile could make any chain of parents, even a ring */

/* snprintf() is not for signal handlers. */
static void stat_path(char path[32], pid_t pid)
{
	char digits[16];
	size_t count = 0;

	for (; pid > 0 && count < sizeof(digits); pid /= 10)
		digits[count++] = (char)('0' + pid % 10);
	path = stpcpy(path, "/proc/");
	while (count)
		*path++ = digits[--count];
	memcpy(path, "/stat", sizeof("/stat"));
}

/* 0 = there is no such process. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[256]; /* the parent's number comes before byte 80 */
	const char *at;
	pid_t parent = 0;
	ssize_t got;
	int fd;

	stat_path(path, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return 0;
	text[got] = 0;
	at = strrchr(text, ')'); /* the name may hold anything */
	if (!at || strlen(at) < sizeof(") S "))
		return 0;
	for (at += strlen(") S "); *at >= '0' && *at <= '9'; at++)
		parent = parent * 10 + (*at - '0');
	return parent;
}

bool sender_is_descendant(const siginfo_t *info)
{
	const int error = errno;
	const pid_t self = getpid();
	pid_t pid = info->si_code == SI_USER ? info->si_pid : 0;

	for (int i = 0; i < GENERATIONS_MAX && pid > 1 && pid != self; i++)
		pid = parent_of(pid);
	errno = error;
	return pid == self && info->si_pid != self;
}
