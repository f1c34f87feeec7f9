/*
 * Some of very many durations; see sample.h.  Context: host.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#define FIRST_ROOM 16u

/* Steele, Lea and Flood's SplitMix64. */
static uint64_t next_chance(struct sample *sample)
{
	uint64_t z = sample->chance += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Keep one of each two. */
static void halve(struct sample *sample)
{
	sample->count /= 2;
	for (uint32_t i = 0; i < sample->count; i++)
		sample->values[i] = sample->values[2 * i + (next_chance(sample) & 1)];
	sample->shift++;
}

static int make_room(struct sample *sample)
{
	uint32_t room = sample->room ? 2 * sample->room : FIRST_ROOM;
	uint64_t *values;

	if (sample->count < sample->room)
		return 0;
	values = reallocarray(sample->values, room, sizeof(*values));
	if (!values)
		return -ENOMEM;
	sample->values = values;
	sample->room = room;
	return 0;
}

static bool is_less(const struct sample_long *a, const struct sample_long *b)
{
	return a->value != b->value ? a->value < b->value : a->chance < b->chance;
}

/* Put a value in the place of the heap's first one, and move it down. */
static void replace_first(struct sample *sample, struct sample_long added)
{
	struct sample_long *heap = sample->longest;
	uint32_t at = 0;

	for (uint32_t child; (child = 2 * at + 1) < sample->longest_count; at = child) {
		child += child + 1 < sample->longest_count && is_less(&heap[child + 1], &heap[child]);
		if (is_less(&added, &heap[child]))
			break;
		heap[at] = heap[child];
	}
	heap[at] = added;
}

static int add_long(struct sample *sample, uint64_t value)
{
	struct sample_long added = {.value = value, .number = sample->seen};
	struct sample_long *heap = sample->longest;
	uint32_t at = sample->longest_count;

	if (at == SAMPLE_LONGEST && value < heap[0].value)
		return 0;
	if (!heap)
		heap = sample->longest = calloc(SAMPLE_LONGEST, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	added.chance = next_chance(sample);
	if (at == SAMPLE_LONGEST) {
		if (is_less(&heap[0], &added))
			replace_first(sample, added);
		return 0;
	}
	for (; at && is_less(&added, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = added;
	sample->longest_count++;
	return 0;
}

static int compare_longest(const void *left, const void *right)
{
	return is_less(left, right) ? 1 : -1;
}

#define BURSTS_MIN 16u /* values that tell of bursts */
#define STRETCHES  8u  /* of the run */

/* The variance of the numbers of values in stretches of the run, by that of independent values. */
double sample_bursts(const struct sample *sample, uint64_t count)
{
	struct sample_long sorted[SAMPLE_LONGEST];
	uint32_t used = count < BURSTS_MIN ? BURSTS_MIN : count > SAMPLE_LONGEST ? SAMPLE_LONGEST : (uint32_t)count;
	double in[STRETCHES] = {0}, expected, off = 0;

	if (sample->longest_count < used)
		return 1;
	memcpy(sorted, sample->longest, sample->longest_count * sizeof(*sorted));
	qsort(sorted, sample->longest_count, sizeof(*sorted), compare_longest);
	for (uint32_t i = 0; i < used; i++)
		in[(uint32_t)((double)sorted[i].number / (double)sample->seen * STRETCHES)]++;
	expected = (double)used / STRETCHES;
	for (uint32_t i = 0; i < STRETCHES; i++)
		off += (in[i] - expected) * (in[i] - expected) / expected;
	off /= STRETCHES - 1;
	return off > 1 ? off : 1;
}

int sample_add(struct sample *sample, uint64_t value)
{
	uint64_t mask = (UINT64_C(1) << sample->shift) - 1;

	if (add_long(sample, value))
		return -ENOMEM;
	if (!(sample->seen & mask)) {
		if (sample->count == SAMPLE_MAX) {
			halve(sample);
			mask = mask * 2 + 1;
		}
		sample->chosen = next_chance(sample) & mask;
	}
	if ((sample->seen++ & mask) != sample->chosen)
		return 0;
	if (make_room(sample))
		return -ENOMEM;
	sample->values[sample->count++] = value;
	return 0;
}

void sample_clear(struct sample *sample)
{
	free(sample->values);
	free(sample->longest);
	memset(sample, 0, sizeof(*sample));
}
