/*
 * The keeper: a process that takes the mount away when the tool was killed.
 *
 * Nobody else would: a FUSE mount whose server has gone stays, and all that is done with it fails.  (libfuse's
 * auto_unmount looks whether the connection has ended, and gives up where that is not so yet.)  The keeper waits at a
 * pipe whose other end the tool has; a byte says that nothing is left to do.  Context: host, a process of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper.h"

#define PIPE_FD 3

/* Spaces and their like are written as \040 in the list of mounts. */
static void unescape(char *text)
{
	char *out = text;
	unsigned code;
	int used;

	for (; *text; text++) {
		used = 0;
		if (*text == '\\' && sscanf(text + 1, "%3o%n", &code, &used) == 1 && used == 3) {
			*out++ = (char)code;
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = 0;
}

/* The number of the mount that is uppermost on the folder, 0 = none. */
static int find_mount(const char *folder)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int found = 0;

	while (file && getline(&line, &size, file) > 0) {
		char *place = line, *number = strsep(&place, " ");

		for (int i = 0; i < 3 && place; i++)
			(void)strsep(&place, " ");
		if (!place)
			continue;
		place[strcspn(place, " \n")] = 0;
		unescape(place);
		if (!strcmp(place, folder))
			found = (int)strtol(number, NULL, 10);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Become a process that has nothing of the tool's but the pipe. */
static void keep(const struct keeper *keeper, int pipe)
{
	sigset_t all;
	char byte;
	ssize_t got;
	int null = open("/dev/null", O_RDWR);

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	if (null < 0 || dup2(pipe, PIPE_FD) < 0 || chdir("/"))
		_exit(1);
	for (int i = 0; i < PIPE_FD; i++)
		dup2(null, i);
	close_range(PIPE_FD + 1, ~0u, 0);
	do
		got = read(PIPE_FD, &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got || find_mount(keeper->folder) != keeper->mount)
		_exit(0);
	if (umount2(keeper->folder, MNT_DETACH | UMOUNT_NOFOLLOW)) {
		sigprocmask(SIG_UNBLOCK, &all, NULL);
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", keeper->folder, (char *)NULL);
	}
	_exit(0);
}

int keeper_start(struct keeper *keeper, const char *folder)
{
	int ends[2], status;
	pid_t child;

	keeper->pipe = -1;
	keeper->mount = find_mount(folder);
	snprintf(keeper->folder, sizeof(keeper->folder), "%s", folder);
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child = fork();
	if (!child) {
		close(ends[1]);
		if (!fork())
			keep(keeper, ends[0]);
		_exit(0);
	}
	close(ends[0]);
	if (child < 0) {
		close(ends[1]);
		return -errno;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	keeper->pipe = ends[1];
	return 0;
}

void keeper_end(struct keeper *keeper)
{
	if (keeper->pipe < 0)
		return;
	if (write(keeper->pipe, "", 1) < 0)
		keeper->mount = 0; /* it has gone, and so has its work */
	close(keeper->pipe);
	keeper->pipe = -1;
}
