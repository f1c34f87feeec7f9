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
int proc_asleep(pid_t tid, long *number, uint64_t *pc, uint64_t *sp)
{
	char text[256] = "", *last[2] = {NULL, NULL}, *rest = NULL;
	int ret = proc_text(tid, "syscall", text, sizeof(text));

	if (ret)
		return ret;
	if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
		return -EAGAIN;
	*number = strtol(text, NULL, 10);
	for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
		last[0] = last[1];
		last[1] = word;
	}
	if (!last[0])
		return -EAGAIN;
	*sp = strtoull(last[0], NULL, 16);
	*pc = strtoull(last[1], NULL, 16);
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
