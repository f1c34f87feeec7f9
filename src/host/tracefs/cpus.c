/*
 * CPUs: how many there are, and on which one a thread ran (tree.h).
 *
 * A thread tells its CPU when it opens a sub-buffer, and at some records in between.  The tool itself looks where the
 * thread ran last when it takes a record in, behind which the thread has told nothing yet: some 100 ms later, or as
 * much later as readers are behind (feed.c).  A record has the CPU of the last reading before it and the first one
 * after it; where these two differ, of the nearer one.  doc/design/tracefs.md has the error.  Context: host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/proc.h>

#include "tree.h"

#define POSSIBLE  "/sys/devices/system/cpu/possible"
#define CPUS_MAX  4096u
#define FRESH_NS  5000000u
#define APART_NS  20000000u /* between two readings that are kept though they agree */
#define CPU_PLACE 39	    /* in /proc/TID/stat */

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

/* Keep what was read.  The newest look is exact; of older ones that agree, some are left out. */
static void keep_look(struct tree_look *looks, struct tree_look look)
{
	bool agrees = looks[1].ns && looks[0].cpu == look.cpu && looks[1].cpu == look.cpu;

	if (!agrees || looks[0].ns - looks[1].ns >= APART_NS)
		memmove(looks + 1, looks, (TREE_LOOKS - 1) * sizeof(*looks));
	looks[0] = look;
}

uint16_t cpus_of_slot(struct tree *tree, uint32_t slot, uint64_t now)
{
	struct tree_slot *known = &tree->slots[slot];
	unsigned long long cpu;

	if (!known->asked_ns || now - known->asked_ns >= FRESH_NS) {
		known->asked_ns = now;
		if (proc_stat((pid_t)known->tid, CPU_PLACE, &cpu))
			keep_look(known->looks, (struct tree_look){now, (uint16_t)(cpu < cpus_count(tree) ? cpu : 0)});
	}
	return known->looks[0].ns ? known->looks[0].cpu : known->cpu;
}

/* The last reading before a time, and the first one after it; .ns = 0: there is none. */
struct around {
	struct tree_look before, after;
};

static void tighten(struct around *around, uint64_t ns, const struct tree_look *look)
{
	if (!look->ns)
		return;
	if (look->ns <= ns && look->ns >= around->before.ns)
		around->before = *look;
	if (look->ns >= ns && (!around->after.ns || look->ns <= around->after.ns))
		around->after = *look;
}

/* The readings that the thread itself has told; a CPU number that this machine does not have counts as none. */
static struct around told(struct tree *tree, const struct trace *trace, const struct trace_cpus *known)
{
	struct around around = {0};

	if (known->before < cpus_count(tree))
		around.before = (struct tree_look){trace_mono_ns(trace, known->from_ticks), (uint16_t)known->before};
	if (known->after < cpus_count(tree))
		around.after = (struct tree_look){trace_mono_ns(trace, known->to_ticks), (uint16_t)known->after};
	return around;
}

/* Where neither the thread nor the kernel tells anything, it is taken to be where it was before, or on CPU 0. */
uint16_t cpus_of_record(struct tree_instance *instance, const struct tree_taking *taking)
{
	const struct trace *trace = trace_follow_trace(instance->source.follow);
	struct tree *tree = instance->tree;
	struct tree_slot *slot = &tree->slots[taking->slot];
	struct trace_cpus known;
	struct around around;

	trace_cpus_around(trace, taking->record->thread, taking->record->ticks, &known);
	if (known.before == known.after && known.before < cpus_count(tree))
		return slot->cpu = (uint16_t)known.before;
	around = told(tree, trace, &known);
	if (!around.after.ns)
		(void)cpus_of_slot(tree, taking->slot, taking->now_ns);
	for (uint32_t i = 0; i < TREE_LOOKS; i++)
		tighten(&around, taking->ns, &slot->looks[i]);
	if (around.before.ns && (!around.after.ns || taking->ns - around.before.ns <= around.after.ns - taking->ns))
		slot->cpu = around.before.cpu;
	else if (around.after.ns)
		slot->cpu = around.after.cpu;
	return slot->cpu;
}

bool cpus_is_wanted(const struct tree_instance *instance, uint32_t cpu)
{
	return !instance->cpumask || instance->cpumask[cpu / CPUS_GROUP] >> cpu % CPUS_GROUP & 1;
}
