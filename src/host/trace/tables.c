/*
 * The tables of a trace: from the payloads of checked chunks.
 *
 * Context: host; called by open.c and follow.c.  A chunk's check keeps accidents out, not malice, so every count, index
 * and string offset is tested all the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "weights.h"

#define INDEX_FREE 65536
#define INDEX_MAX  (1u << 24)

int table_reach(struct table *table, size_t item_size, uint64_t index, uint64_t limit)
{
	if (index < table->count)
		return 0;
	if (index >= limit)
		return -EBADMSG;
	if (index >= table->room) {
		uint64_t room = table->room ? table->room : 16;
		void *items;

		while (room <= index)
			room *= 2;
		if (room > UINT32_MAX)
			return -ENOMEM;
		items = realloc(table->items, room * item_size);
		if (!items)
			return -ENOMEM;
		memset((char *)items + table->room * item_size, 0, (room - table->room) * item_size);
		table->items = items;
		table->room = (uint32_t)room;
	}
	table->count = (uint32_t)index + 1;
	return 0;
}

/*
 * Indices are dense and every description takes bytes, so no index is greater than the file's size: a bound on the
 * memory that one forged index can cost.
 */
uint64_t tables_index_limit(const struct trace *trace)
{
	uint64_t limit = trace->size + INDEX_FREE;

	return limit < INDEX_MAX ? limit : INDEX_MAX;
}

static int take_info(struct trace *trace, char *payload)
{
	for (char *line = payload, *next; line; line = next) {
		char *equals;
		int err;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = '\0';
		err = table_reach(&trace->info, sizeof(struct info_entry), trace->info.count, INDEX_MAX);
		if (err)
			return err;
		*TABLE_ITEM(trace->info, struct info_entry, trace->info.count - 1) =
			(struct info_entry){line, equals + 1};
	}
	return 0;
}

static int take_clock(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_clock clock;

	if (size % sizeof(clock))
		return -EBADMSG;
	for (; size; payload += sizeof(clock), size -= sizeof(clock)) {
		memcpy(&clock, payload, sizeof(clock));
		if (!trace->has_clock || clock.ticks < trace->first_clock.ticks)
			trace->first_clock = clock;
		if (!trace->has_clock || clock.ticks > trace->last_clock.ticks)
			trace->last_clock = clock;
		trace->has_clock = true;
	}
	return 0;
}

static int take_process(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_process from;
	int err;

	if (size < sizeof(from) + 1)
		return -EBADMSG;
	memcpy(&from, payload, sizeof(from));
	err = table_reach(&trace->processes, sizeof(struct trace_process), from.process, tables_index_limit(trace));
	if (err)
		return err;
	*TABLE_ITEM(trace->processes, struct trace_process, from.process) =
		(struct trace_process){.pid = from.pid,
				       .parent = from.parent,
				       .start = from.start,
				       .start_ticks = from.start_ticks,
				       .end_ticks = from.end_ticks,
				       .exe = payload + sizeof(from)};
	return 0;
}

static int take_object(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_object from;
	struct trace_object *object;
	int err;

	if (size < sizeof(from) + 1)
		return -EBADMSG;
	memcpy(&from, payload, sizeof(from));
	if (from.build_id_size > sizeof(from.build_id))
		return -EBADMSG;
	err = table_reach(&trace->objects, sizeof(*object), from.object, tables_index_limit(trace));
	if (err)
		return err;
	object = TABLE_ITEM(trace->objects, struct trace_object, from.object);
	object->path = payload + sizeof(from);
	object->build_id_size = from.build_id_size;
	memcpy(object->build_id, from.build_id, sizeof(object->build_id));
	return 0;
}

static int take_maps(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_map map;

	if (size % sizeof(map))
		return -EBADMSG;
	for (; size; payload += sizeof(map), size -= sizeof(map)) {
		int err;

		memcpy(&map, payload, sizeof(map));
		if (map.lo >= map.hi)
			continue;
		err = table_reach(&trace->maps, sizeof(map), trace->maps.count, INDEX_MAX);
		if (err)
			return err;
		*TABLE_ITEM(trace->maps, struct calltap_file_map, trace->maps.count - 1) = map;
	}
	return 0;
}

int tables_split(const char *payload, size_t size, size_t item_size, uint32_t *count, const char **items,
		 const char **strings, uint32_t *strings_size)
{
	uint32_t head[2];
	uint64_t items_size;

	if (size < sizeof(head))
		return -EBADMSG;
	memcpy(head, payload, sizeof(head));
	items_size = (uint64_t)head[0] * item_size;
	if (sizeof(head) + items_size + head[1] != size || (head[1] && payload[size - 1]))
		return -EBADMSG;
	*count = head[0];
	*items = payload + sizeof(head);
	*strings = *items + items_size;
	*strings_size = head[1];
	return 0;
}

static int function_at(struct trace *trace, uint32_t id, struct trace_function **function)
{
	int err = table_reach(&trace->functions, sizeof(**function), id, tables_index_limit(trace));

	if (!err)
		*function = TABLE_ITEM(trace->functions, struct trace_function, id);
	return err;
}

static int take_functions(struct trace *trace, const char *payload, size_t size)
{
	const char *items, *strings;
	uint32_t count, strings_size;
	int err = tables_split(payload, size, sizeof(struct calltap_file_function), &count, &items, &strings,
			       &strings_size);

	for (; !err && count; count--, items += sizeof(struct calltap_file_function)) {
		struct calltap_file_function from;
		struct trace_function *function;

		memcpy(&from, items, sizeof(from));
		if (from.name >= strings_size)
			return -EBADMSG;
		err = function_at(trace, from.function, &function);
		if (err)
			return err;
		function->object = from.object;
		function->size = from.size;
		function->address = from.address;
		function->symbol = strings + from.name;
	}
	return err;
}

static int take_lines(struct trace *trace, const char *payload, size_t size)
{
	const char *items, *strings;
	uint32_t count, strings_size;
	int err =
		tables_split(payload, size, sizeof(struct calltap_file_line), &count, &items, &strings, &strings_size);

	for (; !err && count; count--, items += sizeof(struct calltap_file_line)) {
		struct calltap_file_line from;
		struct trace_function *function;

		memcpy(&from, items, sizeof(from));
		if (from.file >= strings_size)
			return -EBADMSG;
		err = function_at(trace, from.function, &function);
		if (err)
			return err;
		function->file = strings + from.file;
		function->line = from.line;
	}
	return err;
}

static int take_threads(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_thread from;

	if (size % sizeof(from))
		return -EBADMSG;
	for (; size; payload += sizeof(from), size -= sizeof(from)) {
		struct thread_entry *entry;
		int err;

		memcpy(&from, payload, sizeof(from));
		err = table_reach(&trace->threads, sizeof(*entry), from.thread, tables_index_limit(trace));
		if (err)
			return err;
		entry = TABLE_ITEM(trace->threads, struct thread_entry, from.thread);
		entry->described = true;
		entry->about = (struct trace_thread){.process = from.process,
						     .tid = from.tid,
						     .ended = from.ended == 1,
						     .start_ticks = from.start_ticks,
						     .end_ticks = from.end_ticks,
						     .lost = from.lost,
						     .wait_ticks = from.wait_ticks};
		memcpy(entry->about.name, from.name, sizeof(from.name));
	}
	return 0;
}

static int take_history(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_history from;

	if (size % sizeof(from))
		return -EBADMSG;
	for (; size; payload += sizeof(from), size -= sizeof(from)) {
		struct thread_entry *entry;
		int err;

		memcpy(&from, payload, sizeof(from));
		err = table_reach(&trace->threads, sizeof(*entry), from.thread, tables_index_limit(trace));
		if (err)
			return err;
		entry = TABLE_ITEM(trace->threads, struct thread_entry, from.thread);
		entry->history_ticks = from.from_ticks;
	}
	return 0;
}

static int take_end(struct trace *trace, const char *payload, size_t size)
{
	if (size < sizeof(trace->end))
		return -EBADMSG;
	memcpy(&trace->end, payload, sizeof(trace->end));
	trace->ended = true;
	return 0;
}

int tables_take(struct trace *trace, uint32_t type, char *payload, size_t size, bool *keep)
{
	*keep = type == CALLTAP_CHUNK_INFO || type == CALLTAP_CHUNK_PROCESS || type == CALLTAP_CHUNK_OBJECT ||
		type == CALLTAP_CHUNK_FUNCTIONS || type == CALLTAP_CHUNK_LINES || type == CALLTAP_CHUNK_STACK ||
		type == CALLTAP_CHUNK_FORMATS;
	switch (type) {
	case CALLTAP_CHUNK_INFO:
		return take_info(trace, payload);
	case CALLTAP_CHUNK_CLOCK:
		return take_clock(trace, payload, size);
	case CALLTAP_CHUNK_PROCESS:
		return take_process(trace, payload, size);
	case CALLTAP_CHUNK_OBJECT:
		return take_object(trace, payload, size);
	case CALLTAP_CHUNK_MAP:
		return take_maps(trace, payload, size);
	case CALLTAP_CHUNK_FUNCTIONS:
		return take_functions(trace, payload, size);
	case CALLTAP_CHUNK_LINES:
		return take_lines(trace, payload, size);
	case CALLTAP_CHUNK_THREAD:
		return take_threads(trace, payload, size);
	case CALLTAP_CHUNK_STACK:
		return stacks_take(trace, payload, size);
	case CALLTAP_CHUNK_HISTORY:
		return take_history(trace, payload, size);
	case CALLTAP_CHUNK_FORMATS:
		return formats_take(trace, payload, size);
	case CALLTAP_CHUNK_TICKS:
		return ticks_take(trace, payload, size);
	case CALLTAP_CHUNK_CPUS:
		return cpus_take(trace, payload, size);
	case CALLTAP_CHUNK_END:
		return take_end(trace, payload, size);
	default:
		return 0; /* a chunk of a later version */
	}
}

int tables_take_data(struct trace *trace, const struct data_ref *ref)
{
	int err =
		table_reach(&trace->threads, sizeof(struct thread_entry), ref->head.thread, tables_index_limit(trace));

	if (!err)
		err = table_reach(&trace->data, sizeof(*ref), trace->data.count, UINT32_MAX);
	if (!err)
		*TABLE_ITEM(trace->data, struct data_ref, trace->data.count - 1) = *ref;
	return err;
}

static int compare_refs(const void *left, const void *right)
{
	const struct data_ref *a = left, *b = right;

	if (a->head.thread != b->head.thread)
		return a->head.thread < b->head.thread ? -1 : 1;
	if (a->head.number != b->head.number)
		return a->head.number < b->head.number ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Give each thread its chunks, in order. */
static void settle_data(struct trace *trace)
{
	if (trace->data.count)
		qsort(trace->data.items, trace->data.count, sizeof(struct data_ref), compare_refs);
	for (uint32_t i = 0; i < trace->data.count; i++) {
		const struct data_ref *ref = TABLE_ITEM(trace->data, struct data_ref, i);
		struct thread_entry *entry = TABLE_ITEM(trace->threads, struct thread_entry, ref->head.thread);

		if (!entry->end_data)
			entry->first_data = i;
		entry->end_data = i + 1;
		entry->about.records += ref->head.count;
		/* The thread's row tells that at the end, which a trace that was cut short has not. */
		if (!trace->ended && ref->head.last_ticks > entry->about.end_ticks)
			entry->about.end_ticks = ref->head.last_ticks;
		entry->about.events += ref->head.events < ref->head.count ? ref->head.events : ref->head.count;
	}
}

/* Give every thread a process, even where the process's chunk was lost. */
static int settle_processes(struct trace *trace)
{
	struct table *processes = &trace->processes;
	bool orphans = false;

	for (uint32_t i = 0; i < trace->threads.count; i++) {
		struct thread_entry *entry = TABLE_ITEM(trace->threads, struct thread_entry, i);

		entry->about.history_ticks = entry->history_ticks;
		if (!entry->described && entry->end_data) {
			entry->described = true;
			entry->about.process = TRACE_NONE;
		}
		if (!entry->described || trace_process(trace, entry->about.process))
			continue;
		entry->about.process = 0;
		orphans = true;
	}
	if (orphans && !trace_process(trace, 0)) {
		int err = table_reach(processes, sizeof(struct trace_process), 0, 1);

		if (err)
			return err;
		*TABLE_ITEM(*processes, struct trace_process, 0) =
			(struct trace_process){.parent = TRACE_NONE, .exe = "?"};
	}
	for (uint32_t i = 0; i < processes->count; i++) {
		struct trace_process *process = TABLE_ITEM(*processes, struct trace_process, i);

		if (!trace_process(trace, process->parent))
			process->parent = TRACE_NONE;
	}
	return 0;
}

static int settle_tables(struct trace *trace, bool whole)
{
	int err;

	for (uint32_t i = 0; i < trace->functions.count; i++) {
		struct trace_function *function = TABLE_ITEM(trace->functions, struct trace_function, i);

		if (!trace_object(trace, function->object))
			function->object = TRACE_NONE;
	}
	err = stacks_settle_threads(trace, whole);
	if (!err)
		err = settle_processes(trace);
	if (!err)
		err = address_settle(trace);
	if (!err)
		err = stacks_settle_functions(trace);
	clock_settle(trace);
	ticks_settle(trace);
	return err;
}

int tables_settle(struct trace *trace)
{
	settle_data(trace);
	return settle_tables(trace, true);
}

int tables_settle_more(struct trace *trace)
{
	return settle_tables(trace, false);
}

static void free_functions(struct table *functions)
{
	for (uint32_t i = 0; i < functions->count; i++) {
		struct trace_function *function = TABLE_ITEM(*functions, struct trace_function, i);

		if (function->name != function->symbol)
			free((char *)(uintptr_t)function->name);
		if (function->brief != function->symbol)
			free((char *)(uintptr_t)function->brief);
	}
	free(functions->items);
}

void tables_free(struct trace *trace)
{
	pointers_destroy(trace->pointers);
	if (trace->weights) {
		free(trace->weights->ticks);
		free(trace->weights->rare);
	}
	free(trace->weights);
	free_functions(&trace->functions);
	free_functions(&trace->untraced);
	for (uint32_t i = 0; i < trace->kept.count; i++)
		free(*TABLE_ITEM(trace->kept, char *, i));
	for (uint32_t i = 0; i < trace->threads.count; i++)
		free(TABLE_ITEM(trace->threads, struct thread_entry, i)->cpus.items);
	free(trace->info.items);
	free(trace->objects.items);
	free(trace->processes.items);
	free(trace->threads.items);
	free(trace->data.items);
	free(trace->maps.items);
	free(trace->stacks.items);
	free(trace->frames.items);
	free(trace->formats.items);
	free(trace->fields.items);
	free(trace->late.items);
	free(trace->untraced_buckets);
	free(trace->kept.items);
	free(trace->map_reach);
	free(trace->by_address);
}
