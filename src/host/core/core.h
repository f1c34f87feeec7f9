/*
 * The trace of a flight recorder whose tool is gone, put together from its remains: in a core file, in a living
 * process, or in files (--buffer-dir).
 *
 * Callers: `calltap replay --core` and its like, `calltap snapshot`.  Context: host.
 */
#ifndef HOST_CORE_CORE_H
#define HOST_CORE_CORE_H

#include <stdint.h>
#include <sys/types.h>

#include <calltap/diag.h>

struct core_result {
	uint64_t records;
	uint32_t threads;
	uint64_t file_bytes;
	uint64_t overwritten; /* sub-buffers that could not be read whole */
};

/*
 * Write the trace to fd, an empty file open for writing, which stays the caller's. -ENODATA: the source has no flight
 * recorder in it.
 */
int core_read_file(const char *path, int fd, struct core_result *result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Where the process' buffers are files (record --buffer-dir): of those. */
int core_read_process(pid_t pid, int fd, struct core_result *result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
int core_read_folder(const char *path, int fd, struct core_result *result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
