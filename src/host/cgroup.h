/*
 * The memory that cgroups leave a process (a container's limit), and whether they let it run.
 *
 * Callers: record, attach.  Context: host; a target chooses the names of its cgroups.  Sources: Linux,
 * admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and cgroup-v1/freezer-subsystem.rst; cgroups(7).
 */
#ifndef HOST_CGROUP_H
#define HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Bytes that the process and the others of its cgroups may still take until the kernel ends one of them, with what it
 * could give back of files' pages; UINT64_MAX: there is no limit, or none can be seen.
 */
uint64_t cgroup_memory_left(pid_t pid);
/* True if a cgroup of the process is frozen: none of its threads runs until somebody thaws it. */
bool cgroup_is_frozen(pid_t pid);

#endif
