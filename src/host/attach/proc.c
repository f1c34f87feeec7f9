/*
 * Readers of /proc for threads that are stopped, and the memory of a process
 * (impl.h).  Context: host; a target chooses names and contents.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "impl.h"

/* The text is "NUMBER ARGUMENTS... SP PC", "-1 SP PC", or "running". */
int proc_asleep(pid_t tid, struct proc_sleep *sleep)
{
	uint64_t words[NATIVE_CALL_ARGUMENTS + 2] = {0};
	char text[256] = "", *rest = NULL;
	size_t count = 0;
	int ret = proc_text(tid, "syscall", text, sizeof(text));

	if (ret)
		return ret;
	if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
		return -EAGAIN;
	memset(sleep, 0, sizeof(*sleep));
	sleep->number = strtol(text, &rest, 10);
	for (char *word = rest; count < sizeof(words) / sizeof(words[0]); word = rest) {
		uint64_t value = strtoull(word, &rest, 16);

		if (rest == word)
			break;
		words[count++] = value;
	}
	if (count < 2)
		return -EAGAIN;
	sleep->sp = words[count - 2];
	sleep->pc = words[count - 1];
	memcpy(sleep->arguments, words, (count - 2) * sizeof(words[0]));
	return 0;
}

pid_t proc_inner_id(pid_t tid)
{
	char value[256];
	const char *last;

	if (proc_status(tid, "NSpid", value, sizeof(value)))
		return tid;
	last = strrchr(value, '\t');
	return (pid_t)strtol(last ? last + 1 : value, NULL, 10);
}

int proc_open_map(pid_t alive, const struct map *map)
{
	int fd = space_open(alive, map);

	return fd < 0 ? -ENOENT : fd;
}

int memory_read(pid_t alive, uint64_t address, void *bytes, size_t size)
{
	const struct iovec to = {bytes, size}, from = {(void *)(uintptr_t)address, size};
	ssize_t got = process_vm_readv(alive, &to, 1, &from, 1, 0);

	if (got < 0)
		return -errno;
	return (size_t)got == size ? 0 : -EFAULT;
}

int memory_write(pid_t alive, uint64_t address, const void *bytes, size_t size)
{
	const struct iovec from = {(void *)(uintptr_t)bytes, size}, to = {(void *)(uintptr_t)address, size};
	ssize_t put = process_vm_writev(alive, &from, 1, &to, 1, 0);

	if (put < 0)
		return -errno;
	return (size_t)put == size ? 0 : -EFAULT;
}

bool proc_has_children(pid_t tid)
{
	char name[48], text[16] = "";

	snprintf(name, sizeof(name), "task/%d/children", (int)tid);
	return !proc_text(tid, name, text, sizeof(text)) && text[0];
}
