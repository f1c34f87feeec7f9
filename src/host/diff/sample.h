/*
 * Some of very many durations, in their order: as many as a test needs, spread evenly over the whole run.
 *
 * Caller: diff.c.  Context: host.  All values are kept up to SAMPLE_MAX; then, of each two, four, eight, ... values
 * that follow each other one by chance.  So the sample keeps the order of time, which tells whether a run was steady,
 * and no rhythm of the program meets a rhythm of the sample.  Chance comes from a fixed seed: the same trace gives the
 * same sample.
 */
#ifndef HOST_DIFF_SAMPLE_H
#define HOST_DIFF_SAMPLE_H

#include <stdint.h>

#define SAMPLE_MAX     512u
#define SAMPLE_LONGEST 64u

struct sample_long {
	uint64_t value, chance; /* of equal values those with the greatest chance are kept */
	uint64_t number;	/* of all values, from 0 on */
};

struct sample {
	uint64_t *values;
	uint32_t count, room;
	uint64_t seen;		     /* values so far */
	uint64_t chosen;	     /* which of the current group of values is kept */
	uint64_t chance;	     /* state of the generator */
	unsigned shift;		     /* one of 1 << shift values is kept */
	struct sample_long *longest; /* a heap of the greatest values, the least of them first */
	uint32_t longest_count;
};

/* 0, or -ENOMEM. */
int sample_add(struct sample *sample, uint64_t value) __attribute__((warn_unused_result));
/*
 * How much more unevenly the `count` greatest values lie in the run than they would by chance: 1 or more.  It is told
 * from SAMPLE_LONGEST of them at most, and of 16 at least.
 */
double sample_bursts(const struct sample *sample, uint64_t count);
void sample_clear(struct sample *sample);

#endif
