/*
 * CPUs: how many there are, and on which one a thread runs (tree.h).
 *
 * A record does not know its CPU.  The tool reads the one that the thread ran on last when it takes the record in: some
 * 100 ms later, or as much later as readers are behind (feed.c).  A thread that moves has the records of that time on
 * its later CPU.  Context: host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/proc.h>

#include "tree.h"

#define POSSIBLE  "/sys/devices/system/cpu/possible"
#define CPUS_MAX  4096u
#define FRESH_NS  5000000u
#define CPU_PLACE 39 /* in /proc/TID/stat */

/* The highest number of a list such as "0-3,8", and one more. */
static uint32_t count_possible(void)
{
	FILE *file = fopen(POSSIBLE, "re");
	char line[4096] = "";
	uint32_t count = 0;

	if (file && !fgets(line, sizeof(line), file))
		line[0] = 0;
	if (file)
		fclose(file);
	for (const char *at = line; *(at += strcspn(at, "0123456789"));) {
		char *end;
		unsigned long number = strtoul(at, &end, 10);

		if (number >= count && number < CPUS_MAX)
			count = (uint32_t)number + 1;
		at = end;
	}
	return count ? count : 1;
}

uint32_t cpus_count(struct tree *tree)
{
	if (!tree->cpu_count)
		tree->cpu_count = count_possible();
	return tree->cpu_count;
}

uint16_t cpus_of_slot(struct tree *tree, uint32_t slot, uint64_t now)
{
	struct tree_slot *known = &tree->slots[slot];
	unsigned long long cpu;

	if (known->cpu_ns && now - known->cpu_ns < FRESH_NS)
		return known->cpu;
	known->cpu_ns = now;
	if (proc_stat((pid_t)known->tid, CPU_PLACE, &cpu))
		known->cpu = (uint16_t)(cpu < cpus_count(tree) ? cpu : 0);
	return known->cpu;
}

bool cpus_is_wanted(const struct tree_instance *instance, uint32_t cpu)
{
	return !instance->cpumask || instance->cpumask[cpu / CPUS_GROUP] >> cpu % CPUS_GROUP & 1;
}
