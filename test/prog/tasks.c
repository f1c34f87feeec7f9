/*
 * A program that counts its threads by the links of its folder of tasks, as Chromium's zygote does: it is to see its
 * own alone, before and after traced calls, and in a forked child.
 *
 * Prints what it is told, the same each time, and ends with 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

TRACED int call(int x)
{
	return x + 1;
}

UNTRACED static int links(int ret, const struct stat *file)
{
	return ret ? -errno : (int)file->st_nlink;
}

UNTRACED static void tell(const char *who)
{
	int folder = open("/proc", O_RDONLY | O_DIRECTORY);
	char own[64], parents[64];
	struct stat file;

	snprintf(own, sizeof(own), "/proc/%d/task/", (int)getpid());
	snprintf(parents, sizeof(parents), "/proc/%d", (int)getppid());
	printf("%s: %d", who, links(stat("/proc/self/task", &file), &file));
	printf(" %d", links(stat(own, &file), &file));
	printf(" %d", links(fstatat(folder, "self/task/", &file, 0), &file));
	printf(" %d", links(fstatat(folder, own, &file, 0), &file));
	printf(" %d", links(stat("/proc/self/no-task", &file), &file));
	printf(" %d", links(stat(NULL, &file), &file));
	printf(" %d", stat("/", &file) || !S_ISDIR(file.st_mode));
	printf(" %d\n", stat(parents, &file) || !S_ISDIR(file.st_mode));
	fflush(stdout);
	close(folder);
}

static void *work(void *arg)
{
	tell("two threads");
	return arg;
}

int main(void)
{
	pthread_t thread;

	tell("first");
	call(1);
	tell("after a call");
	if (!fork()) {
		tell("child");
		call(2);
		tell("child after a call");
		_exit(0);
	}
	wait(NULL);
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	return 0;
}
