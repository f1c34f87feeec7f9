/*
 * The intervals and the marks of a row's p50, p99 and Max, where some calls have no exact duration (report.h).
 * doc/design/estimates.md has the argument.  Context: host.
 */
#include <math.h>

#include "report.h"

#define Z 1.96 /* of a normal variable 95 of 100 values are no farther out */

/*
 * Wilson's interval for a proportion of which a sample says that it is `part`: its lower end, or with sign 1 its upper
 * one.
 */
static double wilson(double part, double sample, double sign)
{
	const double z2 = Z * Z / sample;

	return (part + z2 / 2 + sign * sqrt(z2 * part * (1 - part) + z2 * z2 / 4)) / (1 + z2);
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

/*
 * The calls that are no longer than a percentile are a part of all.  Of the estimated ones the exact durations are a
 * sample, so that part of them may be another one, and the percentile that of another rank.  How long such calls are is
 * told twice: by what they got of the time that there was, and by the exact durations.  And the percentile lies between
 * that of the calls' least durations and that of their greatest ones, whatever the sample says.
 */
static struct report_range percentile_range(const struct report_row *row, uint64_t ns, unsigned permille)
{
	struct report_range range = {.ns = ns, .low = ns, .high = ns};
	const double part = permille / 1000.0, estimated = (double)(row->measured - row->exact);
	const double total = (double)row->histogram.total,
		     sample = row->per_exact > 0 ? estimated * estimated / row->per_exact : 0;
	uint64_t least, most, said, low, high;
	double from, to;

	if (row->exact == row->measured || !row->most.total)
		return range;
	/* The middle of the last bucket is above what it holds. */
	least = smaller(histogram_percentile(&row->least, permille), row->max_ns);
	most = smaller(histogram_percentile(&row->most, permille), row->most_ns);
	from = sample > 0 ? part * total + (wilson(part, sample, -1) - part) * estimated : 0;
	to = sample > 0 ? part * total + (wilson(part, sample, 1) - part) * estimated : total;
	if (most > INT64_MAX)
		most = UINT64_MAX; /* nothing bounds it */
	said = histogram_percentile(&row->said, permille);
	low = from >= 1 ? histogram_at(&row->histogram, estimate_whole(from)) : 0;
	high = to + 1 < total ? histogram_at(&row->histogram, estimate_whole(ceil(to))) : most;
	range.ns = larger(least, smaller(ns, most));
	range.low = larger(least, smaller(range.ns, smaller(low, said)));
	range.high = smaller(most, larger(range.ns, larger(high, said)));
	return range;
}

struct report_range report_range(const struct report_row *row, enum report_column column)
{
	struct report_range range = {.ns = row->max_ns, .low = row->max_ns, .high = row->max_ns};

	if (column == REPORT_P50)
		return percentile_range(row, row->p50_ns, 500);
	if (column == REPORT_P99)
		return percentile_range(row, row->p99_ns, 990);
	if (row->most_ns > row->max_ns)
		range.high = row->most_ns;
	range.at_least = !row->max_estimated && range.high > range.low;
	if (row->max_estimated)
		range.low = 0;
	return range;
}

uint64_t report_range_error(const struct report_range *range)
{
	const uint64_t below = range->ns - range->low, above = range->high - range->ns;

	return below > above ? below : above;
}

/* The mark of a figure that is no exact one, which is then *ns. */
static char mark_of(const struct report_range *range, uint64_t *ns)
{
	if (range->at_least)
		return '>';
	if (range->ns / 2 >= report_range_error(range) || range->high == UINT64_MAX)
		return '~';
	*ns = range->high;
	return '<';
}

char report_mark(const struct report *report, const struct report_row *row, enum report_column column, uint64_t *ns)
{
	const bool estimated = report_is_estimated(report, row, column);
	struct report_range range;

	*ns = report_value(row, column);
	if (column != REPORT_P50 && column != REPORT_P99 && column != REPORT_MAX)
		return estimated ? '~' : '\0';
	range = report_range(row, column);
	return estimated || range.low != range.high ? mark_of(&range, ns) : '\0';
}

const char *report_time_text(const struct report *report, const struct report_row *row, enum report_column column,
			     char text[REPORT_TIME_MAX])
{
	uint64_t ns;

	text[0] = report_mark(report, row, column, &ns);
	timetext(ns, text + (text[0] != '\0'));
	return text;
}
