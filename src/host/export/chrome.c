/*
 * The Trace Event Format of Chrome's about:tracing, as a JSON object.
 *
 * Context: host; see export.h.  A call is one complete event ("X"), written when it ends; times are microseconds since
 * the trace's start.  Slices of one thread must nest, so each stack of a thread but the first is written as a thread of
 * its own, with an id that no thread has.
 */
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "../view/json.h"
#include "../view/names.h"
#include "export.h"
#include "told.h"

#define TIDS 4194304u /* the kernel's thread ids are below this */

struct chrome {
	const struct trace *trace;
	struct out *out;
	struct names *names;
	bool any;    /* an event was written: a comma is due before the next one */
	bool *named; /* per stack that is no thread's first: its name was written */
	uint32_t named_room;
	struct told_table told;
};

static void begin_event(struct chrome *chrome)
{
	if (chrome->any)
		out_char(chrome->out, ',');
	chrome->any = true;
	out_char(chrome->out, '\n');
}

/* Write the ids of a process and a thread; chain: the stack's number (callstack_chain()). */
static void put_ids(struct chrome *chrome, uint32_t thread, uint32_t chain)
{
	const struct trace_thread *known = trace_thread(chrome->trace, thread);
	const struct trace_process *process = known ? trace_process(chrome->trace, known->process) : NULL;

	out_bytes(chrome->out, "\"pid\":", 6);
	out_u64(chrome->out, process ? process->pid : 0);
	out_bytes(chrome->out, ",\"tid\":", 7);
	if (chain >= CALLSTACK_OTHER)
		out_u64(chrome->out, (uint64_t)TIDS + (chain - CALLSTACK_OTHER));
	else
		out_u64(chrome->out, known ? known->tid : 0);
}

static void put_name_event(struct chrome *chrome, const char *what, uint32_t thread, uint32_t chain, const char *name)
{
	begin_event(chrome);
	out_text(chrome->out, "{\"ph\":\"M\",\"name\":\"");
	out_text(chrome->out, what);
	out_text(chrome->out, "\",");
	put_ids(chrome, thread, chain);
	out_text(chrome->out, ",\"args\":{\"name\":");
	json_escape(chrome->out, name);
	out_text(chrome->out, "}}");
}

/* The number of the thread's current stack, whose name is written at its first use. */
static uint32_t name_stack(struct chrome *chrome, struct walk *walk, uint32_t thread)
{
	const struct trace_thread *known = trace_thread(chrome->trace, thread);
	uint32_t chain = callstack_chain(walk->stack, thread);
	uint32_t number = chain - CALLSTACK_OTHER;
	char name[EXPORT_STACK_NAME];

	if (chain < CALLSTACK_OTHER)
		return chain;
	if (!export_first_use(&chrome->named, &chrome->named_room, number, &walk->error))
		return chain;
	export_stack_name(name, known, callstack_current(walk->stack, thread));
	put_name_event(chrome, "thread_name", thread, chain, name);
	return chain;
}

/* Write an argument of a slice; *any: one was written before. */
static void put_arg(struct out *out, bool *any, const char *name, const char *text)
{
	if (!text)
		return;
	out_text(out, *any ? ",\"" : ",\"args\":{\"");
	*any = true;
	out_text(out, name);
	out_text(out, "\":");
	json_escape(out, text);
}

static void put_args(struct out *out, const struct call_frame *frame, const char *end, const struct told *told,
		     uint64_t error_ns)
{
	bool any = error_ns > 0;

	if (any) {
		out_text(out, ",\"args\":{\"error_ns\":");
		out_u64(out, error_ns);
	}
	put_arg(out, &any, "end", end);
	put_arg(out, &any, "entered", walk_entered_text(frame));
	put_arg(out, &any, "arguments", told->arguments);
	put_arg(out, &any, "result", told->result);
	if (any)
		out_char(out, '}');
}

static void put_slice(struct chrome *chrome, struct walk *walk, const struct call_closed *closed, const char *end,
		      const struct told *told)
{
	const struct call_frame *frame = closed->frame;
	uint32_t chain = name_stack(chrome, walk, closed->thread);
	struct names_text name = names_function_json(chrome->names, frame->function);
	uint64_t from = walk_since_ns(walk, frame->enter_ticks);
	uint64_t to = walk_since_ns(walk, closed->exit_ticks);

	begin_event(chrome);
	out_bytes(chrome->out, "{\"ph\":\"X\",\"name\":", 17);
	out_bytes(chrome->out, name.text, name.length);
	out_bytes(chrome->out, ",\"ts\":", 6);
	out_milli(chrome->out, from);
	out_bytes(chrome->out, ",\"dur\":", 7);
	out_milli(chrome->out, to > from ? to - from : 0);
	out_char(chrome->out, ',');
	put_ids(chrome, closed->thread, chain);
	put_args(chrome->out, frame, end, told, walk_duration_error_ns(walk, closed));
	out_char(chrome->out, '}');
	if (chrome->out->error)
		walk->error = chrome->out->error;
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct chrome *chrome = ctx;
	struct told told = told_take(&chrome->told, closed->frame);

	if (closed->frame->enter_known || closed->frame->before)
		put_slice(chrome, walk, closed, closed->how == CALL_RETURNED ? NULL : walk_end_text(closed->how),
			  &told);
	told_drop(&told);
}

/* Write an instant event for a call without a duration, a loss or a wait. */
static void put_instant(struct chrome *chrome, struct walk *walk, const struct trace_event *event)
{
	struct names_text name = names_function_json(chrome->names, event->id);

	begin_event(chrome);
	out_text(chrome->out, "{\"ph\":\"i\",\"s\":\"t\",\"name\":");
	if (event->kind == CALLTAP_REC_CALL)
		out_bytes(chrome->out, name.text, name.length);
	else
		out_text(chrome->out, event->kind == CALLTAP_REC_LOST ? "\"records lost\"" : "\"waited for the tool\"");
	out_text(chrome->out, ",\"ts\":");
	out_milli(chrome->out, walk_since_ns(walk, event->ticks));
	out_char(chrome->out, ',');
	put_ids(chrome, event->thread, event->thread);
	if (event->kind != CALLTAP_REC_CALL) {
		out_text(chrome->out,
			 event->kind == CALLTAP_REC_LOST ? ",\"args\":{\"records\":" : ",\"args\":{\"ns\":");
		out_u64(chrome->out,
			event->kind == CALLTAP_REC_LOST ? event->extra : trace_duration_ns(walk->trace, event->extra));
		out_char(chrome->out, '}');
	}
	out_char(chrome->out, '}');
	if (chrome->out->error)
		walk->error = chrome->out->error;
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	if (event->kind != CALLTAP_REC_STACK)
		put_instant(ctx, walk, event);
}

/* Write an instant event whose name is the text, because the browser shows the names only. */
static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	struct chrome *chrome = ctx;
	uint32_t chain;

	if (told_keep(&chrome->told, walk, event->thread, message))
		return;
	chain = name_stack(chrome, walk, event->thread);
	begin_event(chrome);
	out_text(chrome->out, "{\"ph\":\"i\",\"s\":\"t\",\"cat\":");
	json_escape(chrome->out, message->name);
	out_text(chrome->out, ",\"name\":");
	json_escape(chrome->out, message->text);
	out_text(chrome->out, ",\"ts\":");
	out_milli(chrome->out, walk_since_ns(walk, event->ticks));
	out_char(chrome->out, ',');
	put_ids(chrome, event->thread, chain);
	out_char(chrome->out, '}');
	if (chrome->out->error)
		walk->error = chrome->out->error;
}

static const struct walk_ops ops = {.on_close = close_call, .on_event = put_event, .on_message = put_message};

static void describe_threads(struct chrome *chrome, const struct view_filter *filter)
{
	for (uint32_t i = 0; i < trace_thread_count(chrome->trace); i++) {
		const struct trace_thread *thread = trace_thread(chrome->trace, i);
		const struct trace_process *process;

		if (!view_filter_has_thread(filter, chrome->trace, i))
			continue;
		process = trace_process(chrome->trace, thread->process);
		if (process && process->pid == thread->tid)
			put_name_event(chrome, "process_name", i, i, text_base(process->exe));
		put_name_event(chrome, "thread_name", i, i, thread->name);
	}
}

static int write_chrome(const struct trace *trace, const struct view_filter *filter,
			const struct export_options *options, struct out *out, struct walk *walk,
			struct calltap_diag *diag)
{
	struct chrome chrome = {.trace = trace, .out = out};
	int err = names_create(&chrome.names, trace);

	if (err)
		return calltap_diag_set(diag, err, "out of memory for the names");
	out_text(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	describe_threads(&chrome, filter);
	err = walk_run(walk, trace, filter, &ops, &chrome, diag);
	out_text(out, "\n]}\n");
	names_destroy(chrome.names);
	told_clear(&chrome.told);
	free(chrome.named);
	return err;
}

const struct export_format export_chrome = {.name = "chrome",
					    .summary = "JSON for Chrome's about:tracing and its kin",
					    .takes_min = true,
					    .run = write_chrome};
