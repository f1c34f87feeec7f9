/*
 * Durations counted in log-linear buckets, for percentiles.
 *
 * Context: host; report.c keeps a histogram per row, html/ one of all calls.  Values below 32 have a bucket each, every
 * power of two above is split in 32: the answer is the middle of the bucket, so it is off by 1/64 (1.6 %) at most.
 * Memory grows with the range of values seen: 256 bytes for each power of two, 15 KiB at most.
 */
#ifndef HOST_VIEW_HISTOGRAM_H
#define HOST_VIEW_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define HISTOGRAM_SPLIT 32u /* buckets per power of two */

struct histogram {
	uint64_t *counts; /* rows x HISTOGRAM_SPLIT */
	uint64_t total;
	uint8_t first_row; /* row of counts[0] */
	uint8_t rows;
};

/* 0, or -ENOMEM (the value is not counted then). */
int histogram_add(struct histogram *histogram, uint64_t value) __attribute__((warn_unused_result));
int histogram_add_many(struct histogram *histogram, uint64_t value, uint64_t count) __attribute__((warn_unused_result));
/* Add all that another one has counted; 0, or -ENOMEM (nothing is added then). */
int histogram_join(struct histogram *histogram, const struct histogram *other) __attribute__((warn_unused_result));
/* The value that permille of 1000 values do not exceed; 0 when empty. */
uint64_t histogram_percentile(const struct histogram *histogram, unsigned permille);
/* The value that so many values do not exceed, at least 1; 0 when there are not as many. */
uint64_t histogram_at(const struct histogram *histogram, uint64_t rank);
/* The least value such that at most `count` of the values are as great, by whole buckets; 0 when there are no more. */
uint64_t histogram_floor(const struct histogram *histogram, uint64_t count);
/* The next bucket with values, from *at = 0 on: its least value and how many are in it; false past the last one. */
bool histogram_next(const struct histogram *histogram, uint32_t *at, uint64_t *least, uint64_t *count);
void histogram_clear(struct histogram *histogram);

#endif
