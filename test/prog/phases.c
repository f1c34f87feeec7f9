/*
 * A function whose calls are short in one phase and long in the next one.
 *
 * phases PHASES SHORT_CALLS SHORT_NS LONG_CALLS LONG_NS: so many phases, the first, third, ... of SHORT_CALLS calls of
 * phased() that take some SHORT_NS each, the others of LONG_CALLS that take LONG_NS.  Prints what the function measures
 * of its own calls, in ns: "CALLS TOTAL P50 P90 P99 MAX".  A sixth argument is a file for the durations, in order.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "truth.h"

static inline uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

TRACED void phased(uint32_t *took, uint64_t ns)
{
	const uint64_t begun = now();
	uint64_t at;

	do {
		at = now();
	} while (at - begun < ns);
	*took = (uint32_t)(at - begun);
}

UNTRACED static int compare(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

UNTRACED static uint32_t percentile(const uint32_t *sorted, size_t count, unsigned permille)
{
	return sorted[(count * permille + 999) / 1000 - 1];
}

UNTRACED static void tell(uint32_t *took, size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += took[i];
	qsort(took, count, sizeof(*took), compare);
	printf("%zu %llu %u %u %u %u\n", count, (unsigned long long)total, percentile(took, count, 500),
	       percentile(took, count, 900), percentile(took, count, 990), took[count - 1]);
}

int main(int argc, char **argv)
{
	const unsigned long phases = argc > 5 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long calls[2], ns[2], count = 0;
	uint32_t *took;

	if (!phases)
		return 2;
	for (unsigned i = 0; i < 2; i++) {
		calls[i] = strtoul(argv[2 + 2 * i], NULL, 10);
		ns[i] = strtoul(argv[3 + 2 * i], NULL, 10);
	}
	took = calloc((phases + 1) * (calls[0] + calls[1]), sizeof(*took));
	if (!took)
		return 2;
	for (unsigned long phase = 0; phase < phases; phase++)
		for (unsigned long i = 0; i < calls[phase % 2]; i++)
			phased(&took[count++], ns[phase % 2]);
	if (argc > 6) {
		FILE *file = fopen(argv[6], "w");

		if (!file || fwrite(took, sizeof(*took), count, file) != count || fclose(file))
			return 2;
	}
	if (count)
		tell(took, count);
	free(took);
	return 0;
}
