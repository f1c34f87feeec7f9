/*
 * Readers of /proc/PID (proc.h).
 * Context: host; a target chooses names and contents.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"

#define STAT_PARENT 4
#define STAT_BEGAN  22
#define EXITING	    0x4ul /* PF_EXITING of /proc/PID/stat's flags */

int proc_text(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, size - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	return 0;
}

int proc_status(pid_t pid, const char *name, char *value, size_t size)
{
	char path[64], line[256];
	size_t length = strlen(name);
	int ret = -ENOENT;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (ret && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(value, size, "%s", line + length + 1 + strspn(line + length + 1, " \t"));
		ret = 0;
	}
	fclose(file);
	return ret;
}

long proc_number(pid_t pid, const char *name)
{
	char value[256];

	return proc_status(pid, name, value, sizeof(value)) ? 0 : strtol(value, NULL, 10);
}

char proc_state(pid_t tid, unsigned long *flags)
{
	char name[48], text[1024], *end, state = 0;
	unsigned long found = 0;

	/* /proc/TID/stat would add up the times of all threads of the process. */
	snprintf(name, sizeof(name), "task/%d/stat", (int)tid);
	if (proc_text(tid, name, text, sizeof(text)))
		return 0;
	end = strrchr(text, ')'); /* the name may hold anything */
	if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %lu", &state, &found) < 1)
		return 0;
	if (flags)
		*flags = found;
	return state;
}

bool proc_stat(pid_t tid, int place, unsigned long long *value)
{
	char text[1024];
	/* The name, in the second place, may hold anything. */
	const char *at = proc_text(tid, "stat", text, sizeof(text)) ? NULL : strrchr(text, ')');

	for (int i = 2; at && i < place; i++)
		at = strchr(at + 1, ' ');
	if (at)
		*value = strtoull(at, NULL, 10);
	return at != NULL;
}

pid_t proc_parent(pid_t pid)
{
	unsigned long long parent;

	return proc_stat(pid, STAT_PARENT, &parent) ? (pid_t)parent : -ESRCH;
}

bool proc_began(pid_t tid, unsigned long long *ticks)
{
	return proc_stat(tid, STAT_BEGAN, ticks);
}

uint64_t proc_age_ns(pid_t pid)
{
	uint64_t now, tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	unsigned long long began;
	struct timespec boot;

	if (!proc_began(pid, &began))
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	now = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
	return now > began * tick_ns ? now - began * tick_ns : 1;
}

int proc_threads(pid_t pid, pid_t **tids, size_t *count)
{
	const struct dirent *entry;
	size_t room = 0;
	char path[64];
	DIR *dir;

	*tids = NULL;
	*count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		if (*count == room) {
			pid_t *more = reallocarray(*tids, room = room ? room * 2 : 64, sizeof(*more));

			if (!more) {
				closedir(dir);
				free(*tids);
				*tids = NULL;
				return -ENOMEM;
			}
			*tids = more;
		}
		(*tids)[(*count)++] = tid;
	}
	closedir(dir);
	return *count ? 0 : -ESRCH;
}

bool proc_has_ended(pid_t tid)
{
	unsigned long flags = 0;
	char state = proc_state(tid, &flags);

	return !state || state == 'Z' || state == 'X' || flags & EXITING;
}

uint64_t proc_wanted_ns(pid_t pid)
{
	uint64_t sum = 0;
	size_t count;
	pid_t *tids;

	if (proc_threads(pid, &tids, &count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		unsigned long long ran, waited;
		char text[128];

		/* Two numbers in ns, and how often the thread got a CPU; not there without CONFIG_SCHED_INFO. */
		if (!proc_text(tids[i], "schedstat", text, sizeof(text)) &&
		    sscanf(text, "%llu %llu", &ran, &waited) == 2)
			sum += ran + waited;
	}
	free(tids);
	return sum;
}

bool proc_has_thread_in(pid_t pid, char state)
{
	bool found = false;
	size_t count;
	pid_t *tids;

	if (proc_threads(pid, &tids, &count))
		return false;
	for (size_t i = 0; i < count && !found; i++)
		found = proc_state(tids[i], NULL) == state;
	free(tids);
	return found;
}

bool proc_ends_within(pid_t pid, int ms)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	const bool ends = ended.fd < 0 || poll(&ended, 1, ms) != 0;

	if (ended.fd >= 0)
		close(ended.fd);
	return ends;
}

pid_t proc_alive(pid_t pid)
{
	pid_t *tids, found = 0;
	size_t count;

	if (!proc_has_ended(pid))
		return pid;
	if (proc_threads(pid, &tids, &count))
		return 0;
	for (size_t i = 0; !found && i < count; i++)
		if (!proc_has_ended(tids[i]))
			found = tids[i];
	free(tids);
	return found;
}

bool proc_share_memory(pid_t one, pid_t other)
{
	return syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0;
}
