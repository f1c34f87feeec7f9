/*
 * JSON Lines: a head line, then one object per event, in the trace's order.
 *
 * Context: host; see export.h.  The keys are documented in calltap-export(1); keys may be added, but none changes.
 */
#include "../view/json.h"
#include "../view/names.h"
#include "export.h"

struct jsonl {
	const struct trace *trace;
	struct out *out;
	struct names *names;
};

static void put_head(struct jsonl *jsonl)
{
	static const char *const keys[] = {"version", "program", "command", "tracer", "mode", "clock", "started"};
	struct json json;

	json_begin(&json, jsonl->out);
	json_object(&json);
	json_key_string(&json, "ev", "head");
	json_key_u64(&json, "format", 1);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_key_string(&json, keys[i], trace_info(jsonl->trace, keys[i]));
	json_key_u64(&json, "start_mono_ns", trace_mono_ns(jsonl->trace, trace_start_ticks(jsonl->trace)));
	json_object_end(&json);
	out_char(jsonl->out, '\n');
}

static void put_number(struct out *out, const char *key, uint64_t value)
{
	out_text(out, key);
	out_u64(out, value);
}

static void begin_line(struct jsonl *jsonl, const struct walk *walk, const char *what, uint64_t ticks, uint32_t thread)
{
	const struct trace_thread *known = trace_thread(jsonl->trace, thread);
	const struct trace_process *process = known ? trace_process(jsonl->trace, known->process) : NULL;

	out_text(jsonl->out, "{\"ev\":\"");
	out_text(jsonl->out, what);
	put_number(jsonl->out, "\",\"ns\":", walk_since_ns(walk, ticks));
	put_number(jsonl->out, ",\"pid\":", process ? process->pid : 0);
	put_number(jsonl->out, ",\"tid\":", known ? known->tid : 0);
}

static void put_function(struct jsonl *jsonl, uint32_t function)
{
	struct names_text name = names_function_json(jsonl->names, function);

	out_bytes(jsonl->out, ",\"fn\":", 6);
	out_bytes(jsonl->out, name.text, name.length);
}

/* The error of an estimated time, in ns; an exact time has none, and gets no field. */
static void put_error(struct jsonl *jsonl, const char *key, uint64_t error_ns)
{
	if (error_ns)
		put_number(jsonl->out, key, error_ns);
}

static void put_tail(struct jsonl *jsonl, const struct call_frame *frame)
{
	if (frame->tail)
		out_text(jsonl->out, ",\"tail\":true");
}

static void finish_line(struct jsonl *jsonl, struct walk *walk)
{
	out_bytes(jsonl->out, "}\n", 2);
	if (jsonl->out->error)
		walk->error = jsonl->out->error;
}

static void put_entry(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct jsonl *jsonl = ctx;

	if (walk->filter->min_ns)
		return;
	begin_line(jsonl, walk, frame->before ? "open" : "enter", frame->enter_ticks, thread);
	put_function(jsonl, frame->function);
	put_number(jsonl->out, ",\"depth\":", frame->depth);
	put_tail(jsonl, frame);
	put_error(jsonl, ",\"error_ns\":", walk_error_ns(walk, frame->enter_ticks, frame->enter_lo, frame->enter_hi));
	finish_line(jsonl, walk);
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct jsonl *jsonl = ctx;
	uint64_t away_ns;

	begin_line(jsonl, walk, "leave", closed->exit_ticks, closed->thread);
	put_function(jsonl, closed->frame->function);
	put_number(jsonl->out, ",\"depth\":", closed->frame->depth);
	if (closed->frame->enter_known) {
		put_number(jsonl->out, ",\"dur\":", walk_duration_ns(walk, closed));
		put_number(jsonl->out, ",\"self\":", walk_self_ns(walk, closed));
		away_ns = walk_duration_ns(walk, closed) - walk_running_ns(walk, closed);
		if (away_ns)
			put_number(jsonl->out, ",\"away\":", away_ns);
	}
	out_text(jsonl->out, ",\"end\":\"");
	out_text(jsonl->out, walk_end_text(closed->how));
	out_char(jsonl->out, '"');
	put_tail(jsonl, closed->frame);
	put_error(jsonl, ",\"error_ns\":", walk_error_ns(walk, closed->exit_ticks, closed->exit_lo, closed->exit_hi));
	put_error(jsonl, ",\"dur_error_ns\":", walk_duration_error_ns(walk, closed));
	finish_line(jsonl, walk);
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	static const char *const words[CALLTAP_REC_KINDS] = {[CALLTAP_REC_CALL] = "call",
							     [CALLTAP_REC_STACK] = "stack",
							     [CALLTAP_REC_LOST] = "lost",
							     [CALLTAP_REC_WAIT] = "wait"};
	static const char *const keys[CALLTAP_REC_KINDS] = {[CALLTAP_REC_CALL] = ",\"caller\":",
							    [CALLTAP_REC_STACK] = ",\"address\":",
							    [CALLTAP_REC_LOST] = ",\"records\":",
							    [CALLTAP_REC_WAIT] = ",\"dur\":"};
	bool wait = event->kind == CALLTAP_REC_WAIT;
	struct jsonl *jsonl = ctx;

	begin_line(jsonl, walk, words[event->kind], event->ticks, event->thread);
	if (event->kind == CALLTAP_REC_CALL)
		put_function(jsonl, event->id);
	put_number(jsonl->out, keys[event->kind], wait ? trace_duration_ns(walk->trace, event->extra) : event->extra);
	finish_line(jsonl, walk);
}

static void put_value(void *ctx, const struct trace_value *value)
{
	struct json *json = ctx;

	json_key(json, value->name);
	if (value->kind == TRACE_VALUE_NONE)
		json_null(json);
	else if (value->kind == TRACE_VALUE_TEXT)
		json_string(json, value->text);
	else
		json_literal(json, value->text);
}

/* The values of a call by their names; what is not available is null. */
static void put_values(struct out *out, const struct trace *trace, const struct trace_event *event)
{
	struct json json;

	out_text(out, ",\"values\":");
	json_begin(&json, out);
	json_object(&json);
	trace_event_each_value(trace, event, put_value, &json);
	json_object_end(&json);
}

static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	static const char *const roles[] = {[TRACE_ARGUMENTS] = "arguments", [TRACE_RESULT] = "result"};
	bool mark = calltap_event_type(event->id) == CALLTAP_EVENT_MARK;
	struct jsonl *jsonl = ctx;

	begin_line(jsonl, walk,
		   message->role ? roles[message->role]
		   : mark	 ? "mark"
				 : "event",
		   event->ticks, event->thread);
	if (message->role) {
		put_function(jsonl, message->function);
	} else if (!mark) {
		out_text(jsonl->out, ",\"type\":");
		json_escape(jsonl->out, message->name);
	}
	out_text(jsonl->out, ",\"text\":");
	json_escape(jsonl->out, message->text);
	if (message->role)
		put_values(jsonl->out, walk->trace, event);
	finish_line(jsonl, walk);
}

static const struct walk_ops ops = {
	.on_enter = put_entry, .on_close = close_call, .on_event = put_event, .on_message = put_message};

static int write_jsonl(const struct trace *trace, const struct view_filter *filter,
		       const struct export_options *options, struct out *out, struct walk *walk,
		       struct calltap_diag *diag)
{
	struct jsonl jsonl = {.trace = trace, .out = out};
	int err = names_create(&jsonl.names, trace);

	if (err)
		return calltap_diag_set(diag, err, "out of memory for the names");
	put_head(&jsonl);
	err = walk_run(walk, trace, filter, &ops, &jsonl, diag);
	names_destroy(jsonl.names);
	return err;
}

const struct export_format export_json = {
	.name = "json", .summary = "JSON Lines, one object per event", .takes_min = true, .run = write_jsonl};
