/*
 * On which CPUs threads ran: from the CPUS chunks to answers about a time.
 *
 * Context: host; called by tables.c, and by follow.c for a trace that grows.  Readings of a thread that follow each
 * other and tell the same CPU are one span: what lies between them is taken to be on that CPU, which is likely and not
 * certain (doc/design/tracefs.md).  So a thread takes room for each move that was seen, not for each reading.  The rows
 * are untrusted: any numbers are taken, and those that step back in time are passed over.
 */
#include <errno.h>
#include <string.h>

#include "reader.h"

#define SPANS_MAX  (1u << 24) /* of a thread */
#define SPANS_KEPT 256u	      /* of a thread in a trace that grows: older ones than were asked for last go in bulk */

/* All readings of a thread from `from` to `to`, both included, told this CPU. */
struct span {
	uint64_t from, to;
	uint32_t cpu;
};

static int take_row(struct trace *trace, const struct calltap_file_cpu *row)
{
	struct thread_entry *entry;
	struct span *last = NULL;
	int err = table_reach(&trace->threads, sizeof(*entry), row->thread, tables_index_limit(trace));

	if (err)
		return err;
	entry = TABLE_ITEM(trace->threads, struct thread_entry, row->thread);
	if (entry->cpus.count)
		last = TABLE_ITEM(entry->cpus, struct span, entry->cpus.count - 1);
	if (last && row->ticks < last->to)
		return 0;
	if (last && row->cpu == last->cpu) {
		last->to = row->ticks;
		return 0;
	}
	err = table_reach(&entry->cpus, sizeof(*last), entry->cpus.count, SPANS_MAX);
	if (!err)
		*TABLE_ITEM(entry->cpus, struct span, entry->cpus.count - 1) =
			(struct span){row->ticks, row->ticks, row->cpu};
	return err;
}

int cpus_take(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_cpu row;
	int err = size % sizeof(row) ? -EBADMSG : 0;

	for (; !err && size; payload += sizeof(row), size -= sizeof(row)) {
		memcpy(&row, payload, sizeof(row));
		err = take_row(trace, &row);
	}
	return err;
}

/* How many of the spans begin at that time or before. */
static uint32_t begun(const struct table *cpus, uint64_t ticks)
{
	uint32_t low = 0, high = cpus->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (TABLE_ITEM(*cpus, struct span, middle)->from <= ticks)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void answer(const struct table *cpus, uint32_t count, uint64_t ticks, struct trace_cpus *around)
{
	*around = (struct trace_cpus){.before = TRACE_NONE, .after = TRACE_NONE, .to_ticks = UINT64_MAX};
	if (count) {
		const struct span *span = TABLE_ITEM(*cpus, struct span, count - 1);

		around->before = span->cpu;
		around->from_ticks = span->to;
		if (ticks <= span->to) {
			around->after = span->cpu;
			around->from_ticks = span->from;
			around->to_ticks = span->to;
			return;
		}
	}
	if (count < cpus->count) {
		const struct span *next = TABLE_ITEM(*cpus, struct span, count);

		around->after = next->cpu;
		around->to_ticks = next->from;
	}
}

void trace_cpus_around(const struct trace *trace, uint32_t thread, uint64_t ticks, struct trace_cpus *around)
{
	static const struct table none;
	const struct table *cpus = &none;

	if (thread < trace->threads.count)
		cpus = &TABLE_ITEM(trace->threads, struct thread_entry, thread)->cpus;
	answer(cpus, begun(cpus, ticks), ticks, around);
}

void cpus_forget(struct trace *trace, uint32_t thread, uint64_t ticks)
{
	struct table *cpus;
	struct span *spans;
	uint32_t gone;

	if (thread >= trace->threads.count)
		return;
	cpus = &TABLE_ITEM(trace->threads, struct thread_entry, thread)->cpus;
	if (cpus->count < SPANS_KEPT)
		return;
	gone = begun(cpus, ticks);
	if (gone <= SPANS_KEPT / 2)
		return;
	gone--; /* the span that the time lies in, or behind */
	spans = cpus->items;
	memmove(spans, spans + gone, (cpus->count - gone) * sizeof(*spans));
	/* table_reach() gives new items as zero. */
	memset(spans + cpus->count - gone, 0, gone * sizeof(*spans));
	cpus->count -= gone;
}
