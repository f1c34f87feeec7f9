/*
 * Printing times between calls (counted_calls.h).  Context: host; counts are untrusted.
 *
 * The target counts ticks of its clock by powers of two, for it does not know what a tick is.  So the ranges that are
 * shown are powers of two times a tick's length, and each time is in the range that is shown.
 */
#include <inttypes.h>
#include <stdio.h>

#include <host/text.h>

#include "../trace/trace.h"
#include "counted_calls.h"
#include "json.h"
#include "out.h"

#define BAR    40u
#define RANGES 66u /* of numbers without sign: below 0, which none is, 0, and the powers of two */

struct spans {
	const struct tallies *tallies;
	const struct trace *trace;
	uint32_t first, last; /* ranges that have any; first > last: none has */
	uint64_t most;
};

/* Where the range begins, in ticks; the last one has no end. */
static uint64_t range_from(uint32_t range)
{
	return range < 2 ? 0 : (uint64_t)1 << (range - 2) % 64;
}

static uint64_t ns_of(const struct spans *spans, uint64_t ticks)
{
	return trace_duration_ns(spans->trace, ticks);
}

static void look(struct spans *spans)
{
	spans->first = RANGES;
	for (uint32_t i = 1; i < RANGES; i++) {
		uint64_t count = spans->tallies->ranges.counts[i];

		if (!count)
			continue;
		spans->first = i < spans->first ? i : spans->first;
		spans->last = i;
		spans->most = count > spans->most ? count : spans->most;
	}
}

/* What struct tallied_spans has, in ns; there is at least one. */
struct shown {
	uint64_t average, least, most, all;
};

static struct shown show(const struct spans *spans)
{
	const struct tallied_sum *ticks = &spans->tallies->spans.ticks;

	return (struct shown){.average = ns_of(spans, ticks->sum / ticks->count),
			      .least = ns_of(spans, ~ticks->least),
			      .most = ns_of(spans, ticks->most),
			      .all = ns_of(spans, ticks->sum)};
}

static void print_bars(const struct spans *spans, struct out *out)
{
	static const char bar[] = "########################################";

	_Static_assert(sizeof(bar) == BAR + 1, "a full bar");
	out_format(out, "%12s  %s\n", "COUNT", "TIME");
	for (uint32_t i = spans->first; i <= spans->last; i++) {
		uint64_t count = spans->tallies->ranges.counts[i];
		char from[TIMETEXT_MAX], to[TIMETEXT_MAX], name[2 * TIMETEXT_MAX + 8];

		snprintf(name, sizeof(name), "[%s, %s)", timetext(ns_of(spans, range_from(i)), from),
			 i + 1 < RANGES ? timetext(ns_of(spans, range_from(i + 1)), to) : "...");
		out_format(out, "%12" PRIu64 "  %-28s |%.*s\n", count, name,
			   (int)((long double)count * BAR / (long double)spans->most), bar);
	}
}

static void print_sums(const struct spans *spans, const struct counted_options *options, struct out *out)
{
	const struct tallied_spans *told = &spans->tallies->spans;

	if (told->ticks.count) {
		struct shown shown = show(spans);
		char average[TIMETEXT_MAX], least[TIMETEXT_MAX], most[TIMETEXT_MAX];

		out_format(out, "%12" PRIu64 "  times from '%s' to '%s': average %s, least %s, largest %s\n",
			   told->ticks.count, options->from, options->until, timetext(shown.average, average),
			   timetext(shown.least, least), timetext(shown.most, most));
	} else {
		out_format(out, "%12u  times from '%s' to '%s'\n", 0, options->from, options->until);
	}
	if (told->open)
		out_format(out, "%12" PRIu64 "  begun and not ended\n", told->open);
	if (told->not_begun)
		out_format(out, "%12" PRIu64 "  ended without a beginning that was seen\n", told->not_begun);
	if (told->begun_again)
		out_format(out, "%12" PRIu64 "  begun again before the end: measured from the last beginning\n",
			   told->begun_again);
	if (told->roomless)
		out_format(out, "%12" PRIu64 "  begun when there was no room: there is some for %u at once\n",
			   told->roomless, CALLTAP_MAP_SPAN_SLOTS / 4);
	if (spans->tallies->ranges.numberless)
		out_format(out, "%12" PRIu64 "  calls without a number\n", spans->tallies->ranges.numberless);
	if (told->ticks.missed)
		out_format(out,
			   "%12" PRIu64 "  times came when others were compared: least and largest may lack them\n",
			   told->ticks.missed);
}

static void print_json(const struct spans *spans, struct out *out)
{
	const struct tallied_spans *told = &spans->tallies->spans;
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key_u64(&json, "count", told->ticks.count);
	if (told->ticks.count) {
		struct shown shown = show(spans);

		json_key_u64(&json, "sum_ns", shown.all);
		json_key_u64(&json, "avg_ns", shown.average);
		json_key_u64(&json, "min_ns", shown.least);
		json_key_u64(&json, "max_ns", shown.most);
	}
	json_key(&json, "histogram");
	json_array(&json);
	for (uint32_t i = spans->first; i <= spans->last; i++) {
		json_object(&json);
		json_key_u64(&json, "from_ns", ns_of(spans, range_from(i)));
		if (i + 1 < RANGES)
			json_key_u64(&json, "to_ns", ns_of(spans, range_from(i + 1)));
		json_key_u64(&json, "count", spans->tallies->ranges.counts[i]);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_key_u64(&json, "open", told->open);
	json_key_u64(&json, "not_begun", told->not_begun);
	json_key_u64(&json, "begun_again", told->begun_again);
	json_key_u64(&json, "without_room", told->roomless);
	json_key_u64(&json, "without_number", spans->tallies->ranges.numberless);
	json_key_u64(&json, "not_compared", told->ticks.missed);
	json_object_end(&json);
	out_format(out, "\n");
}

void counted_print_spans(const struct tallies *tallies, const struct trace *trace,
			 const struct counted_options *options, struct out *out)
{
	struct spans spans = {.tallies = tallies, .trace = trace};

	look(&spans);
	if (options->json) {
		print_json(&spans, out);
		return;
	}
	if (spans.most)
		print_bars(&spans, out);
	print_sums(&spans, options, out);
}
