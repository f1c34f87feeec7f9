/*
 * Log-linear histogram; see histogram.h.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "histogram.h"

#define SPLIT_BITS 5 /* log2 of HISTOGRAM_SPLIT */

/* A value's row: row 0 holds 0..31 as they are, row r >= 1 the values with r + 4 as their highest bit. */
static unsigned row_of(uint64_t value)
{
	return value < HISTOGRAM_SPLIT ? 0 : 64 - SPLIT_BITS - (unsigned)__builtin_clzll(value);
}

static unsigned bucket_of(uint64_t value, unsigned row)
{
	return (unsigned)(row ? value >> (row - 1) : value) & (HISTOGRAM_SPLIT - 1);
}

/* The least value of a bucket; above the last row UINT64_MAX. */
static uint64_t least_of(unsigned row, unsigned bucket)
{
	if (row > 64 - SPLIT_BITS)
		return UINT64_MAX;
	return row <= 1 ? row * HISTOGRAM_SPLIT + bucket : (uint64_t)(HISTOGRAM_SPLIT + bucket) << (row - 1);
}

static uint64_t middle_of(unsigned row, unsigned bucket)
{
	uint64_t low;

	if (row <= 1)
		return row * HISTOGRAM_SPLIT + bucket;
	low = (uint64_t)(HISTOGRAM_SPLIT + bucket) << (row - 1);
	return low + (UINT64_C(1) << (row - 2));
}

static int cover(struct histogram *histogram, unsigned row)
{
	unsigned first = histogram->rows ? histogram->first_row : row;
	unsigned last = histogram->rows ? first + histogram->rows - 1 : row;
	unsigned new_first = row < first ? row : first;
	unsigned rows = (row > last ? row : last) - new_first + 1;
	uint64_t *counts = calloc(rows, HISTOGRAM_SPLIT * sizeof(*counts));

	if (!counts)
		return -ENOMEM;
	if (histogram->rows)
		memcpy(counts + (size_t)(first - new_first) * HISTOGRAM_SPLIT, histogram->counts,
		       (size_t)histogram->rows * HISTOGRAM_SPLIT * sizeof(*counts));
	free(histogram->counts);
	histogram->counts = counts;
	histogram->first_row = (uint8_t)new_first;
	histogram->rows = (uint8_t)rows;
	return 0;
}

int histogram_add(struct histogram *histogram, uint64_t value)
{
	return histogram_add_many(histogram, value, 1);
}

int histogram_add_many(struct histogram *histogram, uint64_t value, uint64_t count)
{
	unsigned row = row_of(value);

	if (row - histogram->first_row >= histogram->rows) {
		int err = cover(histogram, row);

		if (err)
			return err;
	}
	histogram->counts[(row - histogram->first_row) * HISTOGRAM_SPLIT + bucket_of(value, row)] += count;
	histogram->total += count;
	return 0;
}

int histogram_join(struct histogram *histogram, const struct histogram *other)
{
	const unsigned ends[] = {other->first_row, other->first_row + other->rows - 1u};

	for (unsigned i = 0; other->rows && i < 2; i++) {
		int err = ends[i] - histogram->first_row >= histogram->rows ? cover(histogram, ends[i]) : 0;

		if (err)
			return err;
	}
	for (size_t i = 0; i < (size_t)other->rows * HISTOGRAM_SPLIT; i++)
		histogram->counts[(size_t)(other->first_row - histogram->first_row) * HISTOGRAM_SPLIT + i] +=
			other->counts[i];
	histogram->total += other->total;
	return 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, unsigned permille)
{
	uint64_t rank = histogram->total / 1000 * permille + (histogram->total % 1000 * permille + 999) / 1000;

	return histogram_at(histogram, rank ? rank : 1);
}

uint64_t histogram_at(const struct histogram *histogram, uint64_t rank)
{
	size_t buckets = (size_t)histogram->rows * HISTOGRAM_SPLIT;

	for (size_t i = 0; i < buckets; i++) {
		if (histogram->counts[i] >= rank)
			return middle_of(histogram->first_row + (unsigned)(i / HISTOGRAM_SPLIT),
					 (unsigned)(i % HISTOGRAM_SPLIT));
		rank -= histogram->counts[i];
	}
	return 0;
}

uint64_t histogram_floor(const struct histogram *histogram, uint64_t count)
{
	size_t at = (size_t)histogram->rows * HISTOGRAM_SPLIT;

	if (histogram->total <= count)
		return 0;
	for (uint64_t above = 0; at; at--) {
		above += histogram->counts[at - 1];
		if (above > count)
			break;
	}
	return least_of(histogram->first_row + (unsigned)(at / HISTOGRAM_SPLIT), (unsigned)(at % HISTOGRAM_SPLIT));
}

bool histogram_next(const struct histogram *histogram, uint32_t *at, uint64_t *least, uint64_t *count)
{
	uint32_t buckets = (uint32_t)histogram->rows * HISTOGRAM_SPLIT;

	for (; *at < buckets; ++*at) {
		if (!histogram->counts[*at])
			continue;
		*least = least_of(histogram->first_row + *at / HISTOGRAM_SPLIT, *at % HISTOGRAM_SPLIT);
		*count = histogram->counts[(*at)++];
		return true;
	}
	return false;
}

void histogram_clear(struct histogram *histogram)
{
	free(histogram->counts);
	memset(histogram, 0, sizeof(*histogram));
}
