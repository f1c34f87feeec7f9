/*
 * Several runs of the same program; see runs.h.  Context: host.
 */
#include <math.h>

#include "runs.h"

void runs_take(struct run *run, uint64_t ns)
{
	const double value = log1p((double)ns); /* 0 ns is a duration, too */

	run->measured++;
	run->sum += value;
	run->squares += value * value;
}

struct runs_value runs_log_mean(const struct run *run, unsigned side)
{
	const double count = (double)run->measured, mean = run->sum / count;
	const double variance = count > 1 ? (run->squares - run->sum * mean) / (count - 1) : 0;

	return (struct runs_value){.side = side, .value = mean, .noise = fmax(variance, 0) / count};
}

struct runs_value runs_tail(const struct run *run, unsigned side, uint64_t floor)
{
	uint64_t least, count, calls = 0;

	for (uint32_t at = 0; histogram_next(&run->histogram, &at, &least, &count);)
		calls += least >= floor ? count : 0;
	return (struct runs_value){.side = side,
				   .value = asin(sqrt((double)calls / (double)run->histogram.total)),
				   .noise = 0.25 / (double)run->histogram.total};
}

/* Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: a finite sum for each number. */
double runs_student(double t, unsigned freedom)
{
	const double pi = acos(-1), angle = atan(fabs(t) / sqrt(freedom)), cosine = cos(angle);
	const bool odd = freedom % 2;
	double term = odd ? cosine : 1, sum = 0;

	for (unsigned i = odd ? 1 : 0; i + 2 <= freedom; i += 2) {
		sum += term;
		term *= cosine * cosine * (i + 1) / (i + 2);
	}
	sum *= sin(angle);
	return fmax(0, 1 - (odd ? 2 / pi * (angle + sum) : sum));
}

double runs_test(const struct runs_value *values, unsigned count, double *change)
{
	double number[SIDES] = {0}, mean[SIDES] = {0}, noise = 0, variance = 0;

	*change = 0;
	for (unsigned i = 0; i < count; i++) {
		number[values[i].side]++;
		mean[values[i].side] += values[i].value;
		noise += values[i].noise / count;
	}
	if (!(number[SIDE_A] > 0) || !(number[SIDE_B] > 0) || count <= SIDES)
		return 1;
	for (unsigned side = 0; side < SIDES; side++)
		mean[side] /= number[side];
	*change = mean[SIDE_B] - mean[SIDE_A];
	for (unsigned i = 0; i < count; i++)
		variance += pow(values[i].value - mean[values[i].side], 2) / (count - SIDES);
	/* Runs that are alike by chance vary less than their own calls say. */
	variance = fmax(variance, noise) * (1 / number[SIDE_A] + 1 / number[SIDE_B]);
	if (!(fabs(*change) > 1e-12))
		return 1;
	return variance > 0 ? runs_student(*change / sqrt(variance), count - SIDES) : 0;
}
