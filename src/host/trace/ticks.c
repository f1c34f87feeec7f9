/*
 * When records without a time may have been written: from the TICKS chunks to the decoders' limits.
 *
 * Context: host; called by tables.c and follow.c.  The rows are untrusted: any numbers are taken, and put in order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "weights.h"

#define ROWS_MAX (1u << 24)

int ticks_take(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_ticks head;

	if (size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	payload += sizeof(head);
	if (size - sizeof(head) != (uint64_t)head.count * sizeof(struct calltap_file_late))
		return -EBADMSG;
	for (uint32_t i = 0; i < head.count; i++, payload += sizeof(struct calltap_file_late)) {
		struct calltap_file_late row;
		int err;

		memcpy(&row, payload, sizeof(row));
		if (row.from > row.to)
			continue;
		err = table_reach(&trace->late, sizeof(row), trace->late.count, ROWS_MAX);
		if (err)
			return err;
		*TABLE_ITEM(trace->late, struct calltap_file_late, trace->late.count - 1) = row;
	}
	trace->span = trace->has_ticks && trace->span > head.span ? trace->span : head.span;
	trace->has_ticks = true;
	return 0;
}

static int compare_rows(const void *left, const void *right)
{
	const struct calltap_file_late *a = left, *b = right;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

/* Put the rows in order, and make one of those that have a time in common. */
static void join_rows(struct table *late)
{
	struct calltap_file_late *rows = late->items;
	uint32_t kept = 0;

	if (!late->count)
		return;
	qsort(rows, late->count, sizeof(*rows), compare_rows);
	for (uint32_t i = 1; i < late->count; i++) {
		if (rows[i].from > rows[kept].to)
			rows[++kept] = rows[i];
		else if (rows[i].to > rows[kept].to)
			rows[kept].to = rows[i].to;
	}
	/* table_reach() gives new items as zero. */
	memset(rows + kept + 1, 0, (late->count - kept - 1) * sizeof(*rows));
	late->count = kept + 1;
}

/* Is no record younger than the trace's end? */
static bool has_end(const struct trace *trace)
{
	const struct calltap_file_late *last = NULL;

	if (trace->late.count)
		last = TABLE_ITEM(trace->late, struct calltap_file_late, trace->late.count - 1);
	return trace->ended && !(last && last->to == UINT64_MAX);
}

void ticks_settle(struct trace *trace)
{
	join_rows(&trace->late);
	trace->limits = (struct record_limits){.span = trace->has_ticks ? trace->span : UINT64_MAX,
					       .late = trace->late.items,
					       .late_count = trace->late.count,
					       .end_ticks = has_end(trace) ? trace->end.ticks : UINT64_MAX};
	for (uint32_t i = 0; i < trace->data.count && has_end(trace); i++) {
		const struct data_ref *ref = TABLE_ITEM(trace->data, struct data_ref, i);

		if (ref->head.last_ticks > trace->limits.end_ticks)
			trace->limits.end_ticks = ref->head.last_ticks;
	}
}

/* The first record's time; 0 where a trace has no record. */
static uint64_t first_ticks(const struct trace *trace)
{
	uint64_t first = trace->data.count ? UINT64_MAX : 0;

	for (uint32_t i = 0; i < trace->data.count; i++) {
		const struct data_ref *ref = TABLE_ITEM(trace->data, struct data_ref, i);

		if (ref->head.base_ticks < first)
			first = ref->head.base_ticks;
	}
	return first;
}

/* A flight recorder's trace has the late rows of its whole run, but the last records alone: older rows do not count. */
void trace_estimates(const struct trace *trace, struct trace_estimates *estimates)
{
	const uint64_t first = first_ticks(trace);

	*estimates = (struct trace_estimates){.any = trace->has_ticks,
					      .span_ticks = trace->span,
					      .surplus_ticks = trace->weights ? trace->weights->surplus : 0,
					      .surplus_off_ticks = trace->weights ? trace->weights->surplus_off : 0,
					      .rare_pieces = trace->weights ? trace->weights->rare_pieces : 0};
	for (uint32_t i = 0; i < trace->late.count; i++) {
		const struct calltap_file_late *row = TABLE_ITEM(trace->late, struct calltap_file_late, i);
		uint64_t from = row->from > first ? row->from : first, to = row->to;

		if (to < first)
			continue;
		if (to == UINT64_MAX)
			to = trace->ended && trace->end.ticks > from ? trace->end.ticks : from;
		estimates->late_count++;
		estimates->late_ticks += to - from;
	}
}
