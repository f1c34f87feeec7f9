/*
 * trace and trace_pipe: reading the events of an instance as text, without or with consuming them.
 *
 * Nothing here waits: who serves the tree asks whether there is something, and has the reader wait.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>

#include "tree.h"

#define READER_NS 3000000000u /* who has read, or waited, since then will read more */

/* With pause-on-trace nothing is kept as long as somebody who may read has the file open. */
int stream_begin_trace(struct tree_open *open)
{
	open->reading.latency = options_has(open->instance, OPTION_LATENCY_FORMAT);
	open->reading.pauses = open_reads(open) && options_has(open->instance, OPTION_PAUSE_ON_TRACE);
	if (open_truncates(open, O_TRUNC) && open->reading.cpu == READING_ALL)
		source_forget(open->instance);
	else if (open_truncates(open, O_TRUNC))
		source_forget_cpu(open->instance, open->reading.cpu);
	if (open->reading.pauses)
		source_pause(open->instance);
	return 0;
}

static bool has_cpu_pipe(const struct tree_instance *instance)
{
	for (uint32_t i = 0; i < cpus_count(instance->tree); i++)
		if (instance->cpu_pipes[i])
			return true;
	return false;
}

int stream_begin_pipe(struct tree_open *open)
{
	struct tree_instance *instance = open->instance;
	uint32_t cpu = open->reading.cpu;
	bool all = cpu == READING_ALL;

	if (!instance->cpu_pipes)
		instance->cpu_pipes = calloc(cpus_count(instance->tree), sizeof(*instance->cpu_pipes));
	if (!instance->cpu_pipes)
		return -ENOMEM;
	if (instance->whole_pipe || (all ? has_cpu_pipe(instance) : instance->cpu_pipes[cpu]))
		return -EBUSY;
	if (all)
		instance->whole_pipe = true;
	else
		instance->cpu_pipes[cpu] = true;
	instance->pipes++;
	open->reading.consumes = true;
	open->reading.latency = options_has(instance, OPTION_LATENCY_FORMAT);
	return 0;
}

int stream_begin_snapshot(struct tree_open *open)
{
	open->reading.snapshot = true;
	open->reading.latency = options_has(open->instance, OPTION_LATENCY_FORMAT);
	return 0;
}

void stream_take_snapshot(struct tree_instance *instance)
{
	store_swap(&instance->store, &instance->snapshot);
	instance->snapshot_there = true;
}

int stream_write_snapshot(struct tree_open *open, const char *text, size_t size)
{
	struct tree_instance *instance = open->instance;
	uint64_t what = 0;
	int ret = control_number(open, text, &what);

	if (ret)
		return ret;
	if (what == 1) {
		source_settle(instance);
		stream_take_snapshot(instance);
	} else if (what) {
		store_clear(&instance->snapshot);
	} else {
		store_destroy(&instance->snapshot);
		instance->snapshot_there = false;
	}
	return (int)size;
}

void stream_end(struct tree_open *open)
{
	struct tree_instance *instance = open->instance;

	if (open->reading.consumes && open->reading.cpu == READING_ALL)
		instance->whole_pipe = false;
	else if (open->reading.consumes)
		instance->cpu_pipes[open->reading.cpu] = false;
	instance->pipes -= open->reading.consumes;
	lines_clear(&open->reading);
}

void stream_end_trace(struct tree_open *open)
{
	if (open->reading.pauses)
		source_resume(open->instance);
	stream_end(open);
}

int stream_refuse_snapshot(struct tree_open *open, const char *text, size_t size)
{
	(void)size;
	return control_refuse(open, -EINVAL, "the snapshot is of all CPUs: write to the one at the top", text, 0);
}

/* The text is ignored: to open the file with O_TRUNC has cleared the buffer. */
int stream_write_trace(struct tree_open *open, const char *text, size_t size)
{
	return (int)size;
}

/* Is there an event of the CPU that nobody has consumed, and that can be? */
static bool has_events(const struct tree_instance *instance, uint32_t cpu)
{
	const struct tree_store *store = &instance->store;
	uint64_t oldest = cpu == READING_ALL ? store->first : cpu < store->cpu_count ? store->cpus[cpu].first : 0;
	const struct tree_event *event = oldest ? store_at(store, oldest) : NULL;

	return event && !source_awaits(instance, event);
}

bool stream_is_ready(struct tree_open *open)
{
	struct tree_instance *instance = open->instance;

	if (open->row->stream == STREAM_TRACE)
		return open->reading.begun || open->reading.snapshot || source_known_ns(instance) >= open->since_ns;
	if (open->text.used || has_events(instance, open->reading.cpu) || instance->source.ended)
		return true;
	return open->read_any && source_known_ns(instance) >= open->since_ns && !ask_is_tracing(instance);
}

bool stream_is_pipe(const struct tree_row *row)
{
	return row && (row->stream == STREAM_PIPE || row->stream == STREAM_RAW);
}

void stream_note_reader(struct tree_open *open)
{
	open->read_ns = now_ns();
	if (open->row && open->row->stream == STREAM_RAW)
		store_note_reader(&open->instance->store, open->which);
	else if (open->reading.consumes)
		store_note_reader(&open->instance->store, open->reading.cpu);
}

bool stream_is_being_read(const struct tree_open *open)
{
	const struct tree_store *store = &open->instance->store;
	uint32_t cpu = open->row && open->row->stream == STREAM_RAW ? open->which : open->reading.cpu;
	uint64_t entries = cpu == READING_ALL ? store->entries : cpu < store->cpu_count ? store->cpus[cpu].entries : 0;

	return stream_is_pipe(open->row) && now_ns() - open->read_ns < READER_NS &&
	       (!open->instance->source.ended || entries || open->text.used);
}

/* The whole of trace, or of the snapshot, from its beginning on: what was there when it was opened. */
static void begin_copy(struct tree_open *open)
{
	struct tree_reading *reading = &open->reading;
	struct tree_instance *instance = open->instance;
	const struct tree_store *store = reading->snapshot ? &instance->snapshot : &instance->store;

	if (reading->snapshot && store->first == store->end) {
		lines_snapshot_help(instance, &open->text);
		return;
	}
	lines_header(instance, store, reading->latency, &open->text);
	open->text.failed |= store_copy(&reading->store, store) != 0;
}

static void begin(struct tree_open *open)
{
	struct tree_reading *reading = &open->reading;

	if (reading->begun && !reading->consumes)
		return;
	reading->graph = ask_is_graph(open->instance);
	if (!reading->consumes)
		begin_copy(open);
	reading->begun = true;
	reading->next = lines_store(reading, open->instance)->first;
	reading->end = lines_store(reading, open->instance)->end;
}

void stream_fill(struct tree_open *open, size_t offset, size_t size)
{
	struct tree_instance *instance = open->instance;
	bool consumes = open->reading.consumes;

	if (consumes)
		offset = 0;
	if (open->reading.begun)
		buffer_limit_again(instance);
	else
		buffer_limit(instance);
	begin(open);
	while (open->text.used < offset + size && !open->text.failed &&
	       lines_next(&open->reading, instance, &open->text))
		if (consumes)
			store_take(&instance->store, open->reading.next - 1);
}

void stream_taken(struct tree_open *open, size_t size)
{
	memmove(open->text.bytes, open->text.bytes + size, open->text.used - size);
	open->text.used -= size;
	open->read_any |= size != 0;
}
