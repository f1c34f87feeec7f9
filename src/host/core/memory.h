/*
 * The memory of a process that no tool watches any more: a core file, a living
 * process by /proc/PID/mem, or the files that its buffers are (--buffer-dir).
 *
 * Caller: core.c.  Context: host; all that is read is untrusted.
 */
#ifndef HOST_CORE_MEMORY_H
#define HOST_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <calltap/diag.h>

/* Addresses [lo, hi) and where the first `size` of their bytes are in a file: the rest are not to be had. */
struct core_region {
	uint64_t lo, hi;
	uint64_t offset, size;
	int fd;
};

struct core_memory {
	int *fds;
	uint32_t fd_count;
	struct core_region *regions; /* by address, none overlaps another */
	uint32_t count;
	uint64_t file_bytes; /* size of all files; UINT64_MAX for a living process */
	pid_t pid;	     /* the living process, else 0 */
};

/* Open a core file; -EINVAL: it is not one. */
int core_memory_file(struct core_memory *memory, const char *path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Open a living process. */
int core_memory_process(struct core_memory *memory, pid_t pid, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Open the files in a folder; their addresses are made up. */
int core_memory_folder(struct core_memory *memory, const char *path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void core_memory_close(struct core_memory *memory);
/* Read size bytes at address; -EFAULT: not all of them are there. */
int core_memory_read(const struct core_memory *memory, uint64_t address, void *to, size_t size)
	__attribute__((warn_unused_result));

#endif
