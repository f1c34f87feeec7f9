/*
 * What the memory cgroups of a process leave it (a container's limit of memory).
 *
 * Callers: record.  Context: host; a target chooses the names of its cgroups.  Sources: Linux,
 * admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; cgroups(7).
 */
#ifndef HOST_CGROUP_H
#define HOST_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Bytes that the process and the others of its cgroups may still take until the kernel ends one of them, with what it
 * could give back of files' pages; UINT64_MAX: there is no limit, or none can be seen.
 */
uint64_t cgroup_memory_left(pid_t pid);

#endif
