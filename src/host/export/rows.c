/*
 * Rows of a fixed size, for programs: python/calltap.py reads them (calltap-python(3)).
 *
 * Context: host; see export.h.  A head of 16 bytes ("CTAPROWS", version, size of a row), then blocks.  A block begins
 * with struct block_head; a block of names is a line of JSON, which describes the functions that the next rows name
 * first; a block of rows is that many rows, and then strings that end in NUL, which rows point into.  The last block is
 * a line of JSON, so a reader knows that nothing is missing.  Numbers are little-endian, as all CPUs that Calltap runs
 * on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../view/json.h"
#include "../view/names.h"
#include "export.h"
#include "told.h"

#define VERSION	    1u
#define BLOCK_ROWS  8192u
#define STRINGS_MAX (1u << 20) /* bytes of a block's strings, before the block is written */

enum block_type { BLOCK_NAMES = 1, BLOCK_ROWS_TYPE = 2, BLOCK_END = 3 };

struct block_head {
	uint32_t type, rows;
	uint64_t strings; /* bytes */
};

enum row_kind {
	ROW_CALL = 1,	  /* a call, at its end */
	ROW_ENTER = 2,	  /* a call begins */
	ROW_FUNCTION = 3, /* a call of the tracer `function`, which has no end */
	ROW_MARK = 4,
	ROW_EVENT = 5,
	ROW_LOST = 6,
	ROW_WAIT = 7,
	ROW_STACK = 8
};

enum { ROW_TIMED = 1, ROW_TAIL = 2, ROW_BEFORE = 4 };

struct row {
	uint64_t at_ns;	      /* since the trace's start; CALL: of its beginning, if TIMED, else of its end */
	uint64_t duration_ns; /* CALL, WAIT */
	uint64_t self_ns;     /* CALL */
	uint64_t value;	      /* LOST: records; FUNCTION: the caller's address; STACK: its address */
	uint32_t function;    /* number in the blocks of names, + 1; 0 = of none */
	uint32_t caller;
	uint32_t thread;       /* index in the head's list */
	uint32_t error_ns;     /* what the duration, or the time, is off at the most */
	uint32_t text, result; /* places in the block's strings, + 1; 0 = none */
	uint32_t depth;
	uint8_t kind, how, flags, zero;
};

_Static_assert(sizeof(struct row) == 64, "the size that readers know");
_Static_assert(sizeof(struct block_head) == 16, "the size that readers know");

struct rows {
	const struct trace *trace;
	struct out *out;
	bool entries; /* write a row when a call begins, too */
	struct names *names;
	struct export_numbers numbers;
	uint32_t described; /* functions that a block of names has */
	struct told_table told;
	struct row *list;
	uint32_t count;
	char *strings;
	size_t used, room;
};

static void put_block(struct rows *rows, enum block_type type, uint32_t count, uint64_t strings)
{
	const struct block_head head = {(uint32_t)type, count, strings};

	out_bytes(rows->out, (const char *)&head, sizeof(head));
}

static void describe_function(struct rows *rows, struct json *json, uint32_t number)
{
	uint32_t id = export_number_function(&rows->numbers, number);
	const struct trace_function *function = trace_function(rows->trace, id);
	const struct trace_object *object = function ? trace_object(rows->trace, function->object) : NULL;

	json_object(json);
	json_key_string(json, "name", names_function(rows->names, id).text);
	json_key_string(json, "symbol", function ? function->symbol : NULL);
	json_key_string(json, "object", object ? object->path : NULL);
	json_key_string(json, "file", function ? function->file : NULL);
	json_key_u64(json, "line", function ? function->line : 0);
	json_object_end(json);
}

/* Describe the functions that the waiting rows name first. */
static void put_names(struct rows *rows)
{
	uint32_t count = export_number_count(&rows->numbers);
	struct json json;

	if (rows->described == count)
		return;
	put_block(rows, BLOCK_NAMES, 0, 0);
	json_begin(&json, rows->out);
	json_array(&json);
	while (rows->described < count)
		describe_function(rows, &json, rows->described++);
	json_array_end(&json);
	out_char(rows->out, '\n');
}

static void flush_rows(struct rows *rows)
{
	if (!rows->count)
		return;
	put_names(rows);
	put_block(rows, BLOCK_ROWS_TYPE, rows->count, rows->used);
	out_bytes(rows->out, (const char *)rows->list, rows->count * sizeof(*rows->list));
	out_bytes(rows->out, rows->strings ? rows->strings : "", rows->used);
	rows->count = 0;
	rows->used = 0;
}

/* Keep a text for the row that is being made; returns its place, + 1. */
static uint32_t keep_string(struct rows *rows, struct walk *walk, const char *text)
{
	size_t size = text ? strlen(text) + 1 : 0, room = rows->room ? rows->room : 4096, at = rows->used;
	char *grown;

	if (!text)
		return 0;
	while (room < at + size)
		room *= 2;
	grown = room > rows->room ? realloc(rows->strings, room) : rows->strings;
	if (!grown) {
		walk->error = -ENOMEM;
		return 0;
	}
	rows->strings = grown;
	rows->room = room;
	memcpy(grown + at, text, size);
	rows->used = at + size;
	return (uint32_t)at + 1;
}

static uint32_t number_of(struct rows *rows, struct walk *walk, uint32_t function)
{
	bool first;

	return function == TRACE_NONE ? 0 : export_number(&rows->numbers, function, &first, &walk->error) + 1;
}

static uint32_t cut(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void finish_row(struct rows *rows, struct walk *walk)
{
	if (++rows->count == BLOCK_ROWS || rows->used > STRINGS_MAX)
		flush_rows(rows);
	if (rows->out->error)
		walk->error = rows->out->error;
}

static struct row *begin_row(struct rows *rows, enum row_kind kind, uint64_t at_ns, uint32_t thread)
{
	struct row *row = &rows->list[rows->count];

	*row = (struct row){.at_ns = at_ns, .thread = thread, .kind = (uint8_t)kind};
	return row;
}

static uint8_t flags_of(const struct call_frame *frame)
{
	return (uint8_t)((frame->tail ? ROW_TAIL : 0) | (frame->before ? ROW_BEFORE : 0));
}

static void put_entry(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	const struct call_frame *parent = frame->depth ? callstack_frame(walk->stack, thread, frame->depth - 1) : NULL;
	struct rows *rows = ctx;
	struct row *row;

	if (!rows->entries || walk->filter->min_ns)
		return;
	row = begin_row(rows, ROW_ENTER, walk_since_ns(walk, frame->enter_ticks), thread);
	row->function = number_of(rows, walk, frame->function);
	row->caller = parent ? number_of(rows, walk, parent->function) : 0;
	row->depth = frame->depth;
	row->error_ns = cut(walk_error_ns(walk, frame->enter_ticks, frame->enter_lo, frame->enter_hi));
	row->flags = flags_of(frame);
	finish_row(rows, walk);
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;
	struct rows *rows = ctx;
	struct told told = {0};
	struct row *row = begin_row(rows, ROW_CALL,
				    walk_since_ns(walk, frame->enter_known ? frame->enter_ticks : closed->exit_ticks),
				    closed->thread);

	row->function = number_of(rows, walk, frame->function);
	row->caller = closed->parent ? number_of(rows, walk, closed->parent->function) : 0;
	row->depth = frame->depth;
	row->how = (uint8_t)closed->how;
	row->flags = (uint8_t)(flags_of(frame) | (frame->enter_known ? ROW_TIMED : 0));
	if (frame->enter_known) {
		row->duration_ns = walk_duration_ns(walk, closed);
		row->self_ns = walk_self_ns(walk, closed);
		row->error_ns = cut(walk_duration_error_ns(walk, closed));
	}
	if (frame->user) {
		told = told_take(&rows->told, frame);
		row->text = keep_string(rows, walk, told.arguments);
		row->result = keep_string(rows, walk, told.result);
		told_drop(&told);
	}
	finish_row(rows, walk);
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	static const uint8_t kinds[CALLTAP_REC_KINDS] = {[CALLTAP_REC_CALL] = ROW_FUNCTION,
							 [CALLTAP_REC_STACK] = ROW_STACK,
							 [CALLTAP_REC_LOST] = ROW_LOST,
							 [CALLTAP_REC_WAIT] = ROW_WAIT};
	const struct trace_thread *thread = trace_thread(walk->trace, event->thread);
	struct trace_resolved resolved;
	struct rows *rows = ctx;
	struct row *row = begin_row(rows, kinds[event->kind], walk_since_ns(walk, event->ticks), event->thread);

	if (event->kind == CALLTAP_REC_WAIT)
		row->duration_ns = trace_duration_ns(walk->trace, event->extra);
	else
		row->value = event->extra;
	if (event->kind == CALLTAP_REC_CALL) {
		row->function = number_of(rows, walk, event->id);
		trace_resolve(walk->trace, thread ? thread->process : TRACE_NONE, event->extra, event->ticks,
			      &resolved);
		row->caller = number_of(rows, walk, resolved.function);
	}
	finish_row(rows, walk);
}

static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	bool mark = calltap_event_type(event->id) == CALLTAP_EVENT_MARK;
	struct rows *rows = ctx;
	struct row *row;

	if (told_keep(&rows->told, walk, event->thread, message))
		return;
	row = begin_row(rows, mark ? ROW_MARK : ROW_EVENT, walk_since_ns(walk, event->ticks), event->thread);
	row->function = number_of(rows, walk, message->function);
	row->text = keep_string(rows, walk, message->text);
	row->result = keep_string(rows, walk, mark ? NULL : message->name); /* the type's name */
	finish_row(rows, walk);
}

static const struct walk_ops ops = {
	.on_enter = put_entry, .on_close = close_call, .on_event = put_event, .on_message = put_message};

static void describe_threads(const struct rows *rows, struct json *json)
{
	json_key(json, "threads");
	json_array(json);
	for (uint32_t i = 0; i < trace_thread_count(rows->trace); i++) {
		const struct trace_thread *thread = trace_thread(rows->trace, i);
		const struct trace_process *process = thread ? trace_process(rows->trace, thread->process) : NULL;

		json_object(json);
		json_key_string(json, "name", thread ? thread->name : "");
		json_key_u64(json, "tid", thread ? thread->tid : 0);
		json_key_u64(json, "pid", process ? process->pid : 0);
		json_key_string(json, "program", process ? process->exe : NULL);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_head(struct rows *rows)
{
	const uint32_t sizes[2] = {VERSION, sizeof(struct row)};
	const char *key, *value;
	struct json json;

	out_bytes(rows->out, "CTAPROWS", 8);
	out_bytes(rows->out, (const char *)sizes, sizeof(sizes));
	json_begin(&json, rows->out);
	json_object(&json);
	json_key_u64(&json, "start_mono_ns", trace_mono_ns(rows->trace, trace_start_ticks(rows->trace)));
	json_key(&json, "info");
	json_object(&json);
	for (uint32_t i = 0; trace_info_at(rows->trace, i, &key, &value); i++)
		json_key_string(&json, key, value);
	json_object_end(&json);
	describe_threads(rows, &json);
	json_object_end(&json);
	out_char(rows->out, '\n');
}

static void put_end(struct rows *rows, const struct walk *walk)
{
	struct json json;

	put_block(rows, BLOCK_END, 0, 0);
	json_begin(&json, rows->out);
	json_object(&json);
	json_key_u64(&json, "damages", walk->damages);
	json_object_end(&json);
	out_char(rows->out, '\n');
}

static int write_rows(const struct trace *trace, const struct view_filter *filter, struct out *out, bool entries,
		      struct walk *walk, struct calltap_diag *diag)
{
	struct rows rows = {.trace = trace, .out = out, .entries = entries};
	int err = names_create(&rows.names, trace);

	if (!err)
		err = export_numbers_init(&rows.numbers);
	rows.list = calloc(BLOCK_ROWS, sizeof(*rows.list));
	if (err || !rows.list) {
		err = calltap_diag_set(diag, -ENOMEM, "out of memory for the rows");
	} else {
		put_head(&rows);
		err = walk_run(walk, trace, filter, &ops, &rows, diag);
		flush_rows(&rows);
		if (!err)
			put_end(&rows, walk);
	}
	export_numbers_clear(&rows.numbers);
	names_destroy(rows.names);
	told_clear(&rows.told);
	free(rows.list);
	free(rows.strings);
	return err;
}

static int write_calls(const struct trace *trace, const struct view_filter *filter,
		       const struct export_options *options, struct out *out, struct walk *walk,
		       struct calltap_diag *diag)
{
	return write_rows(trace, filter, out, false, walk, diag);
}

static int write_events(const struct trace *trace, const struct view_filter *filter,
			const struct export_options *options, struct out *out, struct walk *walk,
			struct calltap_diag *diag)
{
	return write_rows(trace, filter, out, true, walk, diag);
}

const struct export_format export_calls = {.name = "calls",
					   .summary = "rows of a fixed size, one for each call, for programs",
					   .binary = true,
					   .takes_min = true,
					   .run = write_calls};
const struct export_format export_events = {.name = "events",
					    .summary = "the same with a row for each entry, too",
					    .binary = true,
					    .takes_min = true,
					    .run = write_events};
