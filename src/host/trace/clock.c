/*
 * From ticks to time: one line through the first and the last clock sample.
 *
 * Context: host.  The counters used as clocks run at a constant rate, so the
 * longest base gives the best rate, and one line keeps the order of events.
 */
#include <stdlib.h>

#include "reader.h"

/* Clocks between 1 kHz and 100 GHz are believed. */
#define RATE_MIN 1e-6
#define RATE_MAX 100.0

void clock_settle(struct trace *trace)
{
	const struct calltap_file_clock *first = &trace->first_clock, *last = &trace->last_clock;
	const char *hz = trace_info(trace, "clock_hz");
	double rate = 0;

	if (trace->has_clock && last->ticks > first->ticks && last->mono_ns > first->mono_ns)
		rate = (double)(last->ticks - first->ticks) / (double)(last->mono_ns - first->mono_ns);
	else if (hz)
		rate = strtod(hz, NULL) / 1e9;
	trace->ticks_per_ns = rate >= RATE_MIN && rate <= RATE_MAX ? rate : 1.0;

	trace->start_ticks = trace->has_clock ? first->ticks : UINT64_MAX;
	for (uint32_t i = 0; i < trace->data.count; i++) {
		uint64_t base = TABLE_ITEM(trace->data, struct data_ref, i)->head.base_ticks;

		if (base < trace->start_ticks)
			trace->start_ticks = base;
	}
	if (trace->start_ticks == UINT64_MAX)
		trace->start_ticks = 0;
	if (!trace->has_clock)
		trace->first_clock.ticks = trace->start_ticks;
}

double trace_ticks_per_ns(const struct trace *trace)
{
	return trace->ticks_per_ns;
}

uint64_t trace_start_ticks(const struct trace *trace)
{
	return trace->start_ticks;
}

uint64_t trace_duration_ns(const struct trace *trace, uint64_t ticks)
{
	double ns = (double)ticks / trace->ticks_per_ns;

	return ns < 0x1p63 ? (uint64_t)ns : INT64_MAX;
}

uint64_t trace_history_ns(const struct trace *trace, uint32_t thread)
{
	const struct trace_thread *about = trace_thread(trace, thread);
	const struct calltap_file_end *mark = trace_end(trace);
	uint64_t end, ns;

	if (!about || !about->history_ticks)
		return 0;
	end = mark && mark->ticks > about->end_ticks ? mark->ticks : about->end_ticks;
	ns = end > about->history_ticks ? trace_duration_ns(trace, end - about->history_ticks) : 0;
	return ns ? ns : 1;
}

uint64_t trace_mono_ns(const struct trace *trace, uint64_t ticks)
{
	const struct calltap_file_clock *first = &trace->first_clock;
	uint64_t ns;

	if (ticks >= first->ticks)
		return first->mono_ns + trace_duration_ns(trace, ticks - first->ticks);
	ns = trace_duration_ns(trace, first->ticks - ticks);
	return ns < first->mono_ns ? first->mono_ns - ns : 0;
}
