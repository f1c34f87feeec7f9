/*
 * Which file lies where in a target, by /proc/PID/maps.
 *
 * Caller: plan.c.  Context: host; a target chooses what is in there.
 */
#ifndef HOST_RECORD_MAPS_H
#define HOST_RECORD_MAPS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct mapping {
	uint64_t lo, hi;
	unsigned long inode;
	unsigned int major, minor;
	char path[4096];
};

/* The line that address is in; -ENOENT: none, or it has no file. */
int maps_find(FILE *maps, uint64_t address, struct mapping *mapping) __attribute__((warn_unused_result));

/*
 * Open the mapping's file to read it: the descriptor, or -errno.  Only the very
 * file that is mapped will do (-ESTALE: another one has its name now).
 */
int maps_open(pid_t pid, const struct mapping *mapping) __attribute__((warn_unused_result));

#endif
